//! The copy of the repository in which mistakes are planted.

use std::fs;
use std::path::Path;

use crate::failure::{Context, Result};
use crate::repo::Repo;

/// Workspaces of their own, which no trial builds.
const LEFT_OUT: [&str; 2] = ["bench/", "fuzz/"];

/// Makes `to` equal to the sources of `from`. A file that is equal already is not written, so that
/// cargo rebuilds only what changed.
pub(super) fn copy(from: &Repo, to: &Repo) -> Result<()> {
    fs::create_dir_all(&to.root).context(to.root.display())?;
    let mut wanted = from.files()?;
    wanted.retain(|path| !LEFT_OUT.iter().any(|prefix| path.starts_with(prefix)));
    for path in to.files()?.iter().filter(|path| !wanted.contains(path)) {
        fs::remove_file(to.root.join(path)).context(path)?;
    }
    for path in &wanted {
        let bytes = fs::read(from.root.join(path)).context(path)?;
        write(&to.root.join(path), &bytes)?;
    }
    Ok(())
}

/// Writes a file, unless it has this content already.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).context(parent.display())?;
    }
    fs::write(path, bytes).context(path.display())
}
