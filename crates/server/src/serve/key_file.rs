//! The file that a first key is put into when nobody watches the server begin.
//!
//! Promises: only its owner can read it, from its first byte on.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::ServeError;

/// What it is called in the data directory.
const NAME: &str = "root-key";

/// Writes the key there. One that is there already is of a database that is gone.
pub(super) fn write(directory: &Path, key: &str) -> Result<PathBuf, ServeError> {
    let path = directory.join(NAME);
    remove(&path);
    let write = || -> io::Result<()> {
        let mut made = File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut made, 0o600);
        let mut file = made.create_new(true).write(true).open(&path)?;
        writeln!(file, "{key}")?;
        file.sync_all()
    };
    match write() {
        Ok(()) => Ok(path),
        Err(why) => Err(ServeError::KeyFile { path, why }),
    }
}

/// Removes it, if it is there.
pub(super) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
