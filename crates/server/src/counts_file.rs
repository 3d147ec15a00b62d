//! The file in which a server without a regional store keeps its counts across restarts.
//!
//! Promises: whatever happens, and whenever, the file is the old one or the new one, whole. Two
//! processes never share it. Saving takes at most one part in fifty of the time.
//! Refuses: to trust a file that is damaged, of another version or of another fleet: it is moved
//! aside, and the server starts with nothing.
//! Fails: with a warning, once for each change, never with an error. A server that cannot keep its
//! counts serves all the same.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::{Limiter, Saved, SavedCounts, SavedError};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

#[cfg(test)]
mod tests;

/// How long a server that is killed forgets, at least: less would wear out disks for little.
const INTERVAL: Duration = Duration::from_secs(5);
/// How many times as long as a save takes is it until the next: it has 2 % of the time, then.
const REST_SHARE: u32 = 49;
/// Bytes written at once: few calls, and little that waits.
const BUFFER: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub struct CountsFile {
    directory: PathBuf,
    stem: String,
    fleet_secret: Option<[u8; 32]>,
    /// Held for as long as this lives. `None` if the counts are not kept.
    lock: Option<File>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What had been admitted when it was last saved.
    admitted: u64,
    saves: u64,
    failed: bool,
}

impl CountsFile {
    /// Takes the file of this directory, or of this region in it, and makes the directory if there
    /// is none. If another process has it, or it cannot be had, the counts are not kept, and it is
    /// said why.
    #[must_use]
    pub fn open(directory: &Path, region: Option<&str>, fleet_secret: Option<[u8; 32]>) -> Self {
        let stem = region.map_or_else(|| "counts".to_owned(), stem);
        let directory = directory.to_owned();
        let state = Mutex::default();
        let mut file = Self { directory, stem, fleet_secret, lock: None, state };
        match file.take() {
            Ok(lock) => file.lock = Some(lock),
            Err(why) => warn(&NotKept { file: &file, why: &why }),
        }
        file
    }

    fn take(&self) -> Result<File, Untaken> {
        fs::create_dir_all(&self.directory)?;
        // Not the file itself: that is another one after each save.
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(self.directory.join(format!("{}.lock", self.stem)))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(Untaken::InUse),
            Err(TryLockError::Error(why)) => Err(Untaken::Io(why)),
        }
    }

    /// Whether counts are kept.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.lock.is_some()
    }

    /// Where they are.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.bin", self.stem))
    }

    /// How often they were saved.
    #[must_use]
    pub fn saves(&self) -> u64 {
        self.lock_state().saves
    }

    /// What an earlier process saved, for [`Builder::restore`](tidegate::Builder::restore). A file
    /// that cannot be used is moved aside.
    pub fn restore(&mut self) -> Option<Saved> {
        if !self.is_kept() {
            return None;
        }
        let path = self.path();
        let read = match File::open(&path) {
            Ok(file) => Saved::read(file, self.fleet_secret),
            Err(why) if why.kind() == io::ErrorKind::NotFound => return None,
            Err(why) => Err(SavedError::Io(why)),
        };
        match read {
            Ok(saved) => Some(saved),
            Err(why) => {
                let aside = self.directory.join(format!("{}.bin.bad", self.stem));
                let moved = fs::rename(&path, &aside).map(|()| aside);
                warn(&Unusable { path: &path, why: &why, moved });
                None
            }
        }
    }

    /// Saves the counts every 5 seconds, or less often if it takes long, whenever something was
    /// admitted since. Ends only if counts are not kept. May be dropped at any time.
    pub async fn keep<L>(self: Arc<Self>, limiter: Arc<L>)
    where
        L: AsRef<Limiter> + Send + Sync + 'static,
    {
        let mut next = Instant::now() + INTERVAL;
        while self.is_kept() {
            sleep_until(next).await;
            let began = Instant::now();
            Arc::clone(&self).save_now(Arc::clone(&limiter)).await;
            next = Instant::now() + rest(began.elapsed());
        }
    }

    /// Saves the counts now, if something was admitted since they were saved. At the end: after
    /// the last request, and after [`Limiter::drain`].
    pub async fn save_now<L>(self: Arc<Self>, limiter: Arc<L>)
    where
        L: AsRef<Limiter> + Send + Sync + 'static,
    {
        // On a thread that may wait for the disk. If this is dropped, the save goes on.
        let _ = spawn_blocking(move || self.save(limiter.as_ref().as_ref())).await;
    }

    /// Saves the counts and waits for the disk.
    fn save(&self, limiter: &Limiter) {
        // Held throughout: of two who save, one waits.
        let mut state = self.lock_state();
        // Before anything is read: what is admitted meanwhile is saved the next time.
        let admitted = limiter.counts().admitted_local;
        if !self.is_kept() || !limiter.is_saved_here() || admitted == state.admitted {
            return;
        }
        let written = self.write(limiter);
        if let Some(text) = state.note(admitted, &written) {
            warn(&Changed { file: self, text: &text });
        }
    }

    /// Replaces the file as a whole.
    fn write(&self, limiter: &Limiter) -> io::Result<SavedCounts> {
        let (path, new) = (self.path(), self.directory.join(format!("{}.bin.new", self.stem)));
        let mut out = BufWriter::with_capacity(BUFFER, File::create(&new)?);
        let counts = limiter.save(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        // On the disk before it gets its name, or a power cut leaves an empty file of that name.
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.directory)?.sync_all()?;
        Ok(counts)
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes what came of a save, and what is to be said of it: only what is new.
    fn note(&mut self, admitted: u64, written: &io::Result<SavedCounts>) -> Option<String> {
        let failed = written.is_err();
        let changed = std::mem::replace(&mut self.failed, failed) != failed;
        match written {
            Ok(_) => {
                (self.admitted, self.saves) = (admitted, self.saves + 1);
                changed.then(|| "counts are saved again.".to_owned())
            }
            Err(why) => changed.then(|| {
                format!("counts are not saved: {why}.\n  A restart forgets what is admitted now.")
            }),
        }
    }
}

/// How long it is until the next save.
fn rest(took: Duration) -> Duration {
    took.saturating_mul(REST_SHARE).max(INTERVAL)
}

/// What the files of a region are called: its name, but for what a file system may not like.
fn stem(region: &str) -> String {
    let mut stem = "counts-".to_owned();
    for byte in region.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => stem.push(byte.into()),
            // Also capitals: some file systems do not tell them apart.
            _ => stem.push_str(&format!("%{byte:02x}")),
        }
    }
    stem
}

/// Why the file could not be had.
#[derive(Debug, thiserror::Error)]
enum Untaken {
    #[error("another process has them")]
    InUse,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The counts are not kept.
struct NotKept<'a> {
    file: &'a CountsFile,
    why: &'a Untaken,
}

impl fmt::Display for NotKept<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.file.path();
        writeln!(f, "warning: counts are not kept in {}: {}.", path.display(), self.why)?;
        writeln!(f, "  Requests are answered all the same; a restart forgets what was admitted.")
    }
}

/// A file that cannot be used.
struct Unusable<'a> {
    path: &'a Path,
    why: &'a SavedError,
    moved: io::Result<PathBuf>,
}

impl fmt::Display for Unusable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "warning: {}: {}.", self.path.display(), self.why)?;
        match &self.moved {
            Ok(aside) => writeln!(f, "  It is now {}; counting starts anew.", aside.display()),
            Err(why) => writeln!(f, "  It will be replaced ({why}); counting starts anew."),
        }
    }
}

/// Saving began to fail, or to work.
struct Changed<'a> {
    file: &'a CountsFile,
    text: &'a str,
}

impl fmt::Display for Changed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "warning: {}: {}", self.file.path().display(), self.text)
    }
}

/// Tells whoever reads the log, if anyone does: a closed pipe must not end the server.
fn warn(text: &dyn fmt::Display) {
    let _ = write!(io::stderr().lock(), "{text}");
}
