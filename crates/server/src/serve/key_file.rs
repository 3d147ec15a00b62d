//! The file that a first key is put into when nobody watches the server begin.
//!
//! Promises: only its owner can read it, from its first byte on.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::ServeError;

/// What it is called in the data directory.
const NAME: &str = "root-key";

/// Writes the key there. A file that is there already may hold the only key of another database: it
/// stays, and the name of this one has the id of its key behind it.
pub(super) fn write(directory: &Path, id: &str, key: &str) -> Result<PathBuf, ServeError> {
    let path = directory.join(NAME);
    match write_new(&path, key) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
        Ok(()) => return Ok(path),
        Err(why) => return Err(ServeError::KeyFile { path, why }),
    }
    let path = directory.join(format!("{NAME}-{id}"));
    match write_new(&path, key) {
        Ok(()) => Ok(path),
        Err(why) => Err(ServeError::KeyFile { path, why }),
    }
}

fn write_new(path: &Path, key: &str) -> io::Result<()> {
    let mut made = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut made, 0o600);
    let mut file = made.create_new(true).write(true).open(path)?;
    writeln!(file, "{key}")?;
    file.sync_all()
}

/// Removes one that was written for nothing, if it is there.
pub(super) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_there_is_never_replaced() {
        let home = std::env::temp_dir().join(format!("tidegate-key-file-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let first = write(&home, "key_1", "one").unwrap();
        let second = write(&home, "key_2", "two").unwrap();
        assert_eq!((&first, &second), (&home.join(NAME), &home.join("root-key-key_2")));
        for (path, key) in [(&first, "one\n"), (&second, "two\n")] {
            assert_eq!(fs::read_to_string(path).unwrap(), key);
            #[cfg(unix)]
            {
                use std::os::unix::fs::MetadataExt;
                assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
            }
        }
        assert!(write(&home, "key_2", "three").is_err(), "nor is the other");
        fs::remove_dir_all(&home).unwrap();
    }
}
