//! Where things are: the repository, its build directory and its files.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Context, Failure, Result};

/// Directories that hold no source of ours, wherever they appear.
const SKIPPED: [&str; 3] = [".git", "target", "node_modules"];

/// One checkout of the repository.
#[derive(Clone, Debug)]
pub(crate) struct Repo {
    /// The directory that holds the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The main build directory; loom, shuttle, fuzz and bench build in directories inside it.
    pub(crate) target: PathBuf,
}

impl Repo {
    /// The repository this program was started from by cargo.
    pub(crate) fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .parent()
            .ok_or_else(|| Failure::machine("xtask must live in a directory of the repository"))?
            .to_path_buf();
        let target = env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |given| root.join(given));
        Ok(Self { root, target })
    }

    /// Cargo, started in the root of the repository.
    pub(crate) fn cargo(&self) -> Command {
        let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(program);
        // Colour codes would hide the lines that we count.
        command.current_dir(&self.root).env("CARGO_TERM_COLOR", "never");
        command
    }

    /// Cargo with its own build directory, `target/<kind>`, because its flags differ.
    pub(crate) fn cargo_apart(&self, kind: &str) -> Command {
        let mut command = self.cargo();
        command.env("CARGO_TARGET_DIR", self.target.join(kind));
        command
    }

    /// A path relative to the root.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Whether a path relative to the root exists.
    pub(crate) fn has(&self, relative: &str) -> bool {
        self.root.join(relative).exists()
    }

    /// Every source file, relative to the root with `/` between the parts, sorted.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let ignored = ignored(&self.root);
        let mut found = Vec::new();
        let mut open = vec![self.root.clone()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).context(directory.display())? {
                let entry = entry.context(directory.display())?;
                let path = entry.path();
                let relative = self.relative(&path);
                let name = entry.file_name().to_string_lossy().into_owned();
                if SKIPPED.contains(&name.as_str()) || ignored.contains(&relative) {
                    continue;
                }
                let kind = entry.file_type().context(path.display())?;
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() {
                    found.push(relative);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// A path as the repository names it.
    fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().replace('\\', "/")
    }
}

/// The anchored lines of `.gitignore` (`/bench/target`): the only form this repository uses.
fn ignored(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.trim().strip_prefix('/'))
        .map(|line| line.trim_end_matches('/').to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_sources_and_nothing_built() {
        let files = Repo::find().unwrap().files().unwrap();
        assert!(files.contains(&"xtask/src/repo.rs".to_owned()));
        assert!(files.contains(&"Cargo.toml".to_owned()));
        assert!(!files.iter().any(|file| file.starts_with("target/") || file.starts_with(".git/")));
    }
}
