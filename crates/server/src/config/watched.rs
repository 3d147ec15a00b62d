//! Files that are looked at again and again.
//!
//! Their content is read, not events about them: a file that is replaced by a rename, a mounted
//! directory whose link points elsewhere and a disk of another machine look all the same. ADR 16.

use std::path::{Path, PathBuf};

use super::{Seen, file};

/// What stands for the content of all files together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Reads them. A file that cannot be read has a fingerprint, too: so its return is noticed.
    pub(super) fn of(files: &[PathBuf]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for path in files {
            let (is_there, bytes) = match file::content(path) {
                Ok(bytes) => (b"+", bytes),
                Err(why) => (b"-", why.kind().to_string().into_bytes()),
            };
            // Of fixed size, so that two lists of files are never the same bytes.
            hasher.update(blake3::hash(name(path)).as_bytes());
            hasher.update(is_there).update(blake3::hash(&bytes).as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }
}

fn name(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Files that are looked at, and when a change is to be acted upon: as soon as the same content is
/// seen twice. A file that is being written is left alone.
#[derive(Debug)]
pub(super) struct Watched {
    acted_on: Fingerprint,
    last: Fingerprint,
    files: Vec<PathBuf>,
}

impl Watched {
    pub(super) fn new(seen: Seen) -> Self {
        let Seen { files, fingerprint } = seen;
        Self { acted_on: fingerprint, last: fingerprint, files }
    }

    /// Reads them. Says whether there is something new that has settled.
    pub(super) fn look(&mut self) -> bool {
        let now = Fingerprint::of(&self.files);
        self.note(now)
    }

    fn note(&mut self, now: Fingerprint) -> bool {
        let has_settled = std::mem::replace(&mut self.last, now) == now;
        has_settled && now != self.acted_on
    }

    /// This is what was acted upon, well or badly. From here on these files are looked at.
    pub(super) fn acted_on(&mut self, seen: Seen) {
        *self = Self::new(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_it_has_settled_and_only_once() {
        let [old, half, new] = [1, 2, 3].map(|byte| Fingerprint([byte; 32]));
        let seen = |fingerprint| Seen { files: Vec::new(), fingerprint };
        let mut watched = Watched::new(seen(old));
        assert!(!watched.note(old));
        assert!(!watched.note(half) && !watched.note(new), "it is being written");
        assert!(watched.note(new));
        watched.acted_on(seen(new));
        assert!(!watched.note(new) && !watched.note(new));
        assert!(!watched.note(old) && watched.note(old), "the old one is a change, too");
    }

    #[test]
    fn content_and_absence_of_every_file_count() {
        let home = std::env::temp_dir().join(format!("tidegate-watched-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let files = [home.join("a"), home.join("b")];
        let mut seen = Vec::new();
        let mut see = || {
            let fingerprint = Fingerprint::of(&files);
            assert!(!seen.contains(&fingerprint), "{seen:?}");
            seen.push(fingerprint);
        };
        see();
        std::fs::write(&files[0], "").unwrap();
        see();
        std::fs::write(&files[0], "x").unwrap();
        see();
        std::fs::rename(&files[0], &files[1]).unwrap();
        see();
        std::fs::remove_dir_all(&home).unwrap();
        assert_eq!(Fingerprint::of(&files), seen[0]);
    }
}
