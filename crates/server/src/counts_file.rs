//! The file in which a server without a regional store keeps its counts across restarts.
//!
//! Promises: whatever happens, and whenever, the file is the old one or the new one, whole. Two
//! processes never share it: one that starts while another ends waits for it. Saving takes at most
//! one part in fifty of the time, and half a megabyte a second of the disk.
//! Refuses: to trust a file that is damaged, of another version or of another fleet: it is moved
//! aside, and the server starts with nothing.
//! Fails: with a warning, once for each change, never with an error. A server that cannot keep its
//! counts serves all the same.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidegate::{Limiter, Saved, SavedError};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::log::{Event, Log, Sayable, Text};

#[cfg(test)]
mod tests;

/// How long a server that is killed forgets, at least: less would wear out disks for little.
const INTERVAL: Duration = Duration::from_secs(5);
/// Bytes a second that are written at most, on average, because each save writes the whole file.
/// That is 43 GB a day, of the hundred or more that a disk of a few hundred GB is made for. A
/// hundred thousand subjects are then saved every 9 seconds, a million every minute and a half.
const BYTES_PER_SECOND: u64 = 500_000;
/// How long a process that starts waits for one that has the file. One that was asked to end takes
/// 8 seconds at most, and then saves. Whoever waits longer is more of a loss than the counts.
const TAKE_DEADLINE: Duration = Duration::from_secs(10);
/// How often it looks whether the file is free.
const TAKE_INTERVAL: Duration = Duration::from_millis(50);
/// How many times as long as a save takes is it until the next: it has 2 % of the time, then.
const REST_SHARE: u32 = 49;
/// Bytes written at once: few calls, and little that waits.
const BUFFER: usize = 256 << 10;

/// See the module.
///
/// ```
/// use std::sync::Arc;
///
/// use tidegate::{Cost, Limit, Limiter, Part, Request, Subject, Window};
/// use tidegate_server::counts_file::CountsFile;
///
/// # let dir = std::env::temp_dir().join(format!("tidegate-kept-{}", std::process::id()));
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let (part, day) = (Part::new("a")?, Window::from_millis(86_400_000)?);
/// let request = Request::new(Subject::new(part, part, part, day), Limit::new(9), Cost::ONE);
///
/// let file = Arc::new(CountsFile::new(&dir, None, None));
/// file.take().await;
/// assert!(file.is_kept() && file.restore().is_none(), "the first life");
/// let limiter = Arc::new(Limiter::builder().build()?);
/// limiter.check_now(&request);
/// Arc::clone(&file).save_now(limiter).await;
/// assert!(file.saves() == 1 && file.path().ends_with("counts.bin"));
/// drop(file);
///
/// let file = CountsFile::new(&dir, None, None);
/// file.take().await;
/// let saved = file.restore().ok_or("nothing was saved")?;
/// let limiter = Limiter::builder().restore(saved).build()?;
/// assert!(limiter.check_now(&request).remaining() <= 8, "the second life knows of the first");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CountsFile {
    directory: PathBuf,
    stem: String,
    fleet_secret: Option<[u8; 32]>,
    /// Held for as long as this lives, once it was taken.
    lock: OnceLock<File>,
    state: Mutex<State>,
    log: Log,
}

#[derive(Debug, Default)]
struct State {
    /// What had been admitted when it was last saved.
    admitted: u64,
    saves: u64,
    failed: bool,
}

impl CountsFile {
    /// The file of this directory, or of this region in it. It is this process's once it was
    /// [taken](Self::take). The [type](Self) has an example.
    #[must_use]
    pub fn new(directory: &Path, region: Option<&str>, fleet_secret: Option<[u8; 32]>) -> Self {
        let stem = region.map_or_else(|| "counts".to_owned(), stem);
        let directory = directory.to_owned();
        let (lock, state) = (OnceLock::new(), Mutex::default());
        Self { directory, stem, fleet_secret, lock, state, log: Log::off() }
    }

    /// Where it is said what becomes of it; otherwise nowhere.
    pub(crate) fn telling(self, log: &Log) -> Self {
        Self { log: log.clone(), ..self }
    }

    /// Takes the file, and makes the directory if there is none. If another process has it, that
    /// one is probably about to end, and is waited for, 10 seconds at most: its counts are worth a
    /// late start. If it does not end, or the file cannot be had, the counts are not kept for now,
    /// and it is said why; [`keep`](Self::keep) goes on trying. The [type](Self) has an example.
    pub async fn take(&self) {
        let deadline = Instant::now() + TAKE_DEADLINE;
        let mut told = false;
        while let Err(why) = self.try_take() {
            if !matches!(why, Untaken::InUse) || Instant::now() >= deadline {
                let (path, why) = (Some(self.text()), Text::of(&why));
                return self.log.say(Event::CountsNotKept { path, why });
            }
            if !std::mem::replace(&mut told, true) {
                let at_most_ms = TAKE_DEADLINE.as_secs().saturating_mul(1_000);
                self.log.say(Event::CountsAwaited { path: self.text(), at_most_ms });
            }
            sleep_until(Instant::now() + TAKE_INTERVAL).await;
        }
    }

    fn try_take(&self) -> Result<(), Untaken> {
        if self.is_kept() {
            return Ok(());
        }
        fs::create_dir_all(&self.directory)?;
        // Not the file itself: that is another one after each save.
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(self.directory.join(format!("{}.lock", self.stem)))?;
        match lock.try_lock() {
            Ok(()) => {
                let _ = self.lock.set(lock);
                Ok(())
            }
            Err(TryLockError::WouldBlock) => Err(Untaken::InUse),
            Err(TryLockError::Error(why)) => Err(Untaken::Io(why)),
        }
    }

    /// Whether counts are kept. The [type](Self) has an example.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.lock.get().is_some()
    }

    /// Where they are. The [type](Self) has an example.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.bin", self.stem))
    }

    /// How often they were saved. The [type](Self) has an example.
    #[must_use]
    pub fn saves(&self) -> u64 {
        self.lock_state().saves
    }

    /// What an earlier process saved, for [`Builder::restore`](tidegate::Builder::restore). A file
    /// that cannot be used is moved aside. The [type](Self) has an example.
    pub fn restore(&self) -> Option<Saved> {
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
                let moved = fs::rename(&path, &aside);
                let moved_to = moved.ok().map(|()| Text::path(&aside));
                let (path, why) = (self.text(), Text::of(&why));
                self.log.say(Event::CountsUnusable { path, why, moved_to });
                None
            }
        }
    }

    /// Saves the counts every 5 seconds, or less often if they are many or it takes long, whenever
    /// something was admitted since. A file that another process had is taken over when that one
    /// ends; what it saved is replaced then, because a limiter that runs takes nothing in. Never
    /// ends. May be dropped at any time. [`save_now`](Self::save_now) is one step of it; the
    /// [type](Self) has an example.
    pub async fn keep<L>(self: Arc<Self>, limiter: Arc<L>)
    where
        L: AsRef<Limiter> + Send + Sync + 'static,
    {
        let mut pause = INTERVAL;
        loop {
            sleep_until(Instant::now() + pause).await;
            if !self.is_kept() && self.try_take().is_ok() {
                self.log.say(Event::CountsKept { path: self.text() });
            }
            let began = Instant::now();
            let bytes = Arc::clone(&self).save_aside(Arc::clone(&limiter)).await;
            pause = rest(began.elapsed(), bytes);
        }
    }

    /// Saves the counts now, if something was admitted since they were saved, and also if other
    /// regions know this process and it has not saved as whom. At the start, before they do, and at
    /// the end: after the last request, and after [`Limiter::drain`]. The [type](Self) has an
    /// example.
    pub async fn save_now<L>(self: Arc<Self>, limiter: Arc<L>)
    where
        L: AsRef<Limiter> + Send + Sync + 'static,
    {
        self.save_aside(limiter).await;
    }

    /// Saves on a thread that may wait for the disk. If this is dropped, the save goes on. Says
    /// how many bytes were written.
    async fn save_aside<L>(self: Arc<Self>, limiter: Arc<L>) -> u64
    where
        L: AsRef<Limiter> + Send + Sync + 'static,
    {
        spawn_blocking(move || self.save(limiter.as_ref().as_ref())).await.unwrap_or(0)
    }

    /// Saves the counts and waits for the disk. Says how many bytes were written.
    fn save(&self, limiter: &Limiter) -> u64 {
        // Held throughout: of two who save, one waits.
        let mut state = self.lock_state();
        // Before anything is read: what is admitted meanwhile is saved the next time.
        let admitted = limiter.counts().admitted_local;
        let is_news = admitted != state.admitted || (state.saves == 0 && limiter.has_identity());
        if !self.is_kept() || !limiter.is_saved_here() || !is_news {
            return 0;
        }
        let written = self.write(limiter);
        if state.note(admitted, &written) {
            self.tell(&written);
        }
        written.unwrap_or(0)
    }

    /// Replaces the file as a whole. Says how long it is.
    fn write(&self, limiter: &Limiter) -> io::Result<u64> {
        let (path, new) = (self.path(), self.directory.join(format!("{}.bin.new", self.stem)));
        let mut made = File::options();
        // For this user only, as the directory usually is.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut made, 0o600);
        let made = made.create(true).write(true).truncate(true).open(&new)?;
        let mut out = BufWriter::with_capacity(BUFFER, made);
        limiter.save(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        // On the disk before it gets its name, or a power cut leaves an empty file of that name.
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        fs::rename(&new, &path)?;
        File::open(&self.directory)?.sync_all()?;
        Ok(bytes)
    }

    /// Saving began to fail, or to work.
    fn tell(&self, written: &io::Result<u64>) {
        let path = self.text();
        self.log.say(match written {
            Ok(_) => Event::CountsSaved { path },
            Err(why) => Event::CountsNotSaved { path, why: Text::of(why) },
        });
    }

    fn text(&self) -> Text {
        Text::path(&self.path())
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes what came of a save. Says whether that is worth a word: only what is new is.
    fn note(&mut self, admitted: u64, written: &io::Result<u64>) -> bool {
        let failed = written.is_err();
        if !failed {
            (self.admitted, self.saves) = (admitted, self.saves + 1);
        }
        std::mem::replace(&mut self.failed, failed) != failed
    }
}

/// How long it is until the next save.
fn rest(took: Duration, bytes: u64) -> Duration {
    let worn = Duration::from_millis(bytes.saturating_mul(1_000) / BYTES_PER_SECOND);
    took.saturating_mul(REST_SHARE).max(worn).max(INTERVAL)
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

/// Words of ours and of the operating system.
impl Sayable for Untaken {}
