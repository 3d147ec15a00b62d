//! Where things are kept when nobody says where: the data directory and the database in it.
//!
//! Promises: the same place for the server and for the commands that look after it; a directory
//! that is made is its owner's alone.
//! Refuses: to guess. Without a home directory somebody has to say where.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The name of the database in the data directory.
const DATABASE_FILE: &str = "tidegate.db";

/// There is no place for it. [`make`] has an example.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Neither a directory nor a home was named.
    #[error(
        "there is no home directory to keep data in: name a directory with --data or \
         TIDEGATE_DATA, or a database with --database or TIDEGATE_DATABASE"
    )]
    NoHome,
    /// The directory cannot be made.
    #[error("the data directory {}: {why}", path.display())]
    Make {
        /// Which one.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
}

/// The data directory: the one that was said, or `tidegate` where programs of this user keep their
/// data. Nothing is made yet. [`make`] has an example.
///
/// # Errors
/// When nothing was said and the user has no home.
pub fn data_dir(said: Option<&Path>) -> Result<PathBuf, PlaceError> {
    choose(said, std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
}

/// The address of the database in a data directory. [`make`] has an example.
#[must_use]
pub fn database_url(dir: &Path) -> String {
    format!("sqlite:{}", dir.join(DATABASE_FILE).display())
}

/// Makes a data directory, if it is missing, that only its owner can look into.
///
/// ```
/// use tidegate_server::place::{PlaceError, data_dir, database_url, make};
///
/// # let here = std::env::temp_dir().join(format!("tidegate-data-{}", std::process::id()));
/// let dir = data_dir(Some(&here))?;
/// make(&dir)?;
/// make(&dir)?; // May be there already.
/// assert!(database_url(&dir).starts_with("sqlite:/"));
///
/// let file = dir.join("file");
/// std::fs::write(&file, "in the way")?;
/// assert!(matches!(make(&file), Err(PlaceError::Make { path, .. }) if path == file));
/// # std::fs::remove_dir_all(&here)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When it cannot be made.
pub fn make(dir: &Path) -> Result<(), PlaceError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|why| PlaceError::Make { path: dir.to_owned(), why })
}

fn choose(
    said: Option<&Path>,
    data_home: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf, PlaceError> {
    if let Some(said) = said.filter(|path| !path.as_os_str().is_empty()) {
        return Ok(said.to_owned());
    }
    // A relative one is to be ignored, says who invented the variable.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let base = data_home.and_then(absolute);
    let base = base.or_else(|| home.and_then(absolute).map(|home| home.join(".local/share")));
    base.map(|base| base.join("tidegate")).ok_or(PlaceError::NoHome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(said: &str, data_home: &str, home: &str) -> Option<PathBuf> {
        let if_any = |text: &str| Some(OsString::from(text)).filter(|text| !text.is_empty());
        choose(Some(Path::new(said)), if_any(data_home), if_any(home)).ok()
    }

    #[test]
    fn the_nearest_word_decides() {
        assert_eq!(chosen("here", "/data", "/users/ann"), Some("here".into()));
        assert_eq!(chosen("", "/data", "/users/ann"), Some("/data/tidegate".into()));
        let home = Some(PathBuf::from("/users/ann/.local/share/tidegate"));
        assert_eq!(chosen("", "", "/users/ann"), home);
        assert_eq!(chosen("", "data", "/users/ann"), home, "a relative one is ignored");
        assert_eq!(chosen("", "", ""), None);
        assert_eq!(
            choose(None, None, None).unwrap_err().to_string().split(':').next().unwrap(),
            "there is no home directory to keep data in"
        );
    }

    #[test]
    fn a_database_is_a_file_in_the_directory() {
        assert_eq!(database_url(Path::new("/data/tidegate")), "sqlite:/data/tidegate/tidegate.db");
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_is_its_owners_alone_and_may_be_there_already() {
        use std::os::unix::fs::PermissionsExt;

        let top = std::env::temp_dir().join(format!("tidegate-place-{}", std::process::id()));
        let dir = top.join("a/b");
        for _ in 0..2 {
            make(&dir).unwrap();
            let mode = std::fs::metadata(&dir).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        let file = dir.join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(make(&file).unwrap_err().to_string().contains("a/b/file"));
        std::fs::remove_dir_all(&top).unwrap();
    }
}
