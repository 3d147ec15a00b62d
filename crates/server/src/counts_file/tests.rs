use std::env;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::sqlite::SqliteStore;
use tidegate::{Cost, Limit, ManualClock, Part, RegionName, Request, Subject, Window};
use tidegate_lab::{DEADLINE, eventually};
use tokio::time::timeout;

use super::*;

/// A day: the tests end before it does.
const DAY_MS: u64 = 86_400_000;
const START_MS: u64 = 20_000 * DAY_MS;

/// The file, taken if it is free.
fn open(directory: &Path, region: Option<&str>, secret: Option<[u8; 32]>) -> CountsFile {
    let file = CountsFile::new(directory, region, secret);
    let _ = file.try_take();
    file
}

/// A directory that ends with its owner.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-counts-{}-{number}", std::process::id());
        let path = env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        // It is made by whoever needs it.
        Self(path)
    }

    /// Whoever forks meanwhile, as another test does, holds the file for a moment longer than its
    /// owner.
    fn open(&self) -> CountsFile {
        let file = CountsFile::new(&self.0, None, None);
        eventually("the file is free", DEADLINE, || file.try_take().ok()).unwrap();
        file
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn limiter(saved: Option<Saved>) -> Limiter {
    let builder = Limiter::builder().clock(ManualClock::at_unix_ms(START_MS));
    match saved {
        Some(saved) => builder.restore(saved).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

fn request(cost: u64) -> Request<'static> {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(DAY_MS).unwrap();
    let subject = Subject::new(part("w"), part("n"), part("i"), window);
    Request::new(subject, Limit::new(1_000_000_000), Cost::new(cost).unwrap())
}

fn spend(limiter: &Limiter, cost: u64) {
    assert!(limiter.check_now(&request(cost)).admitted());
}

fn spent(limiter: &Limiter) -> u64 {
    1_000_000_000 - limiter.check_now(&request(0)).remaining()
}

/// Lets virtual time pass.
async fn pass(ms: u64) {
    let _ = timeout(Duration::from_millis(ms), std::future::pending::<()>()).await;
}

/// What the next process would begin with.
fn kept(place: &Place) -> u64 {
    spent(&limiter(place.open().restore()))
}

#[test]
fn the_next_process_finds_what_was_saved() {
    let place = Place::new();
    let file = place.open();
    assert!(file.is_kept() && file.restore().is_none(), "there is nothing yet");
    let first = limiter(None);
    spend(&first, 7);
    file.save(&first);
    spend(&first, 5);
    file.save(&first);
    assert_eq!(file.path(), place.file("counts.bin"));
    drop(file);
    assert_eq!(kept(&place), 12);
}

#[test]
fn nothing_is_written_if_nothing_was_admitted() {
    let place = Place::new();
    let (file, limiter) = (place.open(), limiter(None));
    file.save(&limiter);
    assert_eq!((file.saves(), file.path().exists()), (0, false));
    spend(&limiter, 1);
    file.save(&limiter);
    let _ = limiter.check_now(&request(0));
    file.save(&limiter);
    assert_eq!(file.saves(), 2, "a question is an admission too");
    file.save(&limiter);
    assert_eq!(file.saves(), 2);
}

#[test]
fn two_processes_never_share_a_file() {
    let place = Place::new();
    let (first, second) = (place.open(), open(&place.0, None, None));
    assert!(first.is_kept() && !second.is_kept());
    let (one, other) = (limiter(None), limiter(None));
    spend(&one, 3);
    spend(&other, 8);
    first.save(&one);
    second.save(&other);
    assert_eq!((second.saves(), second.restore()), (0, None));
    drop((first, second));
    assert_eq!(kept(&place), 3, "whoever comes next has it");
}

#[test]
fn each_region_has_its_own_file() {
    let place = Place::new();
    let of = |region| open(&place.0, Some(region), None);
    let all = ["eu", "EU", "../eu", "e%75", "a/b"].map(of);
    assert!(all.iter().all(CountsFile::is_kept));
    assert_eq!(all[0].path(), place.file("counts-eu.bin"));
    let flat = |file: &CountsFile| file.path().parent() == Some(place.0.as_path());
    assert!(all.iter().all(flat), "no name leaves the directory");
}

#[test]
fn a_file_that_cannot_be_used_is_moved_aside() {
    let place = Place::new();
    let first = limiter(None);
    spend(&first, 7);
    place.open().save(&first);
    let whole = fs::read(place.file("counts.bin")).unwrap();
    let mut flipped = whole.clone();
    flipped[60] ^= 1;
    let bad = [&whole[..whole.len() - 1], b"", b"something else", &flipped];
    for bytes in bad {
        fs::write(place.file("counts.bin"), bytes).unwrap();
        assert_eq!(kept(&place), 0);
        assert_eq!(fs::read(place.file("counts.bin.bad")).unwrap(), bytes);
        assert!(!place.file("counts.bin").exists());
    }
    fs::write(place.file("counts.bin"), &whole).unwrap();
    let foreign = CountsFile::new(&place.0, None, Some([1; 32]));
    eventually("the file is free", DEADLINE, || foreign.try_take().ok()).unwrap();
    assert!(foreign.restore().is_none(), "of another fleet");
    assert_eq!(fs::read(place.file("counts.bin.bad")).unwrap(), whole);
    let again = limiter(None);
    spend(&again, 2);
    drop(foreign);
    place.open().save(&again);
    assert_eq!(kept(&place), 2, "and it goes on");
}

#[test]
fn a_directory_that_cannot_be_had_fails_nothing() {
    let place = Place::new();
    fs::write(&place.0, "a file").unwrap();
    let file = open(&place.0, None, None);
    assert!(!file.is_kept() && file.restore().is_none());
    let limiter = limiter(None);
    spend(&limiter, 1);
    file.save(&limiter);
    fs::remove_file(&place.0).unwrap();
}

#[test]
fn a_save_that_fails_leaves_the_old_file() {
    let place = Place::new();
    let (file, limiter) = (place.open(), limiter(None));
    spend(&limiter, 3);
    file.save(&limiter);
    // Where the new file is written there is something in the way.
    fs::create_dir(place.file("counts.bin.new")).unwrap();
    spend(&limiter, 4);
    file.save(&limiter);
    assert!(file.lock_state().failed && file.saves() == 1);
    let old = Saved::read(File::open(file.path()).unwrap(), None).unwrap();
    assert_eq!(old.subjects(), 1);
    fs::remove_dir(place.file("counts.bin.new")).unwrap();
    file.save(&limiter);
    assert!(!file.lock_state().failed);
    drop(file);
    assert_eq!(kept(&place), 7, "what was not saved is not taken as saved");
}

#[test]
fn only_a_change_is_told() {
    let mut state = State::default();
    let failure = || Err(io::Error::other("the disk is full"));
    let saved = || Ok(93);
    assert!(!state.note(1, &saved()));
    assert!(state.note(2, &failure()));
    assert!(!state.note(3, &failure()));
    assert!(state.note(4, &saved()));
    assert_eq!((state.note(5, &saved()), state.admitted, state.saves), (false, 5, 3));
}

#[test]
fn saving_has_a_fiftieth_of_the_time() {
    assert_eq!(rest(Duration::ZERO, 0), INTERVAL);
    assert_eq!(rest(Duration::from_millis(102), 0), INTERVAL);
    let took = Duration::from_secs(2);
    assert_eq!(took.as_secs_f64() / (took + rest(took, 0)).as_secs_f64(), 0.02);
}

#[test]
fn a_disk_is_worn_by_half_a_megabyte_a_second_at_most() {
    for (subjects, seconds) in [(50_000, 5), (100_000, 8), (1_000_000, 88), (u64::MAX / 44, 0)] {
        let rest = rest(Duration::ZERO, subjects * 44);
        assert!(rest >= INTERVAL && rest.as_secs() >= seconds, "{subjects}: {rest:?}");
        if subjects <= 1_000_000 {
            assert_eq!(rest.as_secs(), seconds, "{subjects}");
        }
    }
}

/// A rolling restart on one directory: the old process is still finishing.
#[tokio::test(start_paused = true)]
async fn a_process_waits_for_the_one_that_ends_and_begins_with_its_counts() {
    let place = Place::new();
    let (old, ending) = (place.open(), limiter(None));
    let new = CountsFile::new(&place.0, None, None);
    let old_ends = async {
        pass(8_000).await;
        spend(&ending, 7);
        old.save(&ending);
        drop(old);
    };
    let start = Instant::now();
    tokio::join!(new.take(), old_ends);
    assert!(new.is_kept() && start.elapsed() < TAKE_DEADLINE);
    assert_eq!(spent(&limiter(new.restore())), 7);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_waited_in_vain_takes_the_file_over_later() {
    let place = Place::new();
    let (old, new) = (place.open(), Arc::new(CountsFile::new(&place.0, None, None)));
    let start = Instant::now();
    new.take().await;
    assert!(start.elapsed() < TAKE_DEADLINE + Duration::from_secs(1));
    assert!(!new.is_kept() && new.restore().is_none());
    let one = Arc::new(limiter(None));
    let keeper = tokio::spawn(Arc::clone(&new).keep(Arc::clone(&one)));
    spend(&one, 3);
    pass(60_000).await;
    assert_eq!((new.is_kept(), new.saves()), (false, 0));
    drop(old);
    // A process that another test starts at this moment has the lock too, until it is a program of
    // its own.
    for _ in 0..1_000 {
        pass(5_500).await;
        if new.is_kept() {
            break;
        }
    }
    assert_eq!((new.is_kept(), new.saves()), (true, 1));
    keeper.abort();
    let _ = keeper.await;
    let is_free = || (Arc::strong_count(&new) == 1).then_some(());
    eventually("nobody saves any more", DEADLINE, is_free).unwrap();
    drop(new);
    assert_eq!(kept(&place), 3);
}

/// A region of one process that is killed before its first request is the same one afterwards.
#[tokio::test]
async fn who_a_region_is_is_saved_before_anything_is_admitted() {
    let place = Place::new();
    let build = |saved: Option<Saved>| {
        let store = SqliteStore::open(&place.file("globe.db"));
        let builder = Limiter::builder().globe(RegionName::new("eu").unwrap(), store);
        match saved {
            Some(saved) => builder.restore(saved).build().unwrap(),
            None => builder.build().unwrap(),
        }
    };
    let file = place.open();
    assert!(!limiter(None).has_identity() && build(None).has_identity());
    file.save(&build(None));
    assert_eq!(file.saves(), 1);
    drop(file);
    let at_home = limiter(place.open().restore());
    assert!(at_home.has_identity(), "of the life before");
    let file = place.open();
    file.save(&build(file.restore()));
    file.save(&at_home);
    assert_eq!(file.saves(), 1, "once is enough");
}

#[tokio::test(start_paused = true)]
async fn counts_are_saved_at_a_steady_cadence() {
    let place = Place::new();
    let (file, limiter) = (Arc::new(place.open()), Arc::new(limiter(None)));
    let keeper = tokio::spawn(Arc::clone(&file).keep(Arc::clone(&limiter)));
    let saves_after = async |ms| {
        pass(ms).await;
        file.saves()
    };
    assert_eq!(saves_after(12_000).await, 0);
    spend(&limiter, 3);
    assert_eq!(saves_after(5_500).await, 1);
    assert_eq!(saves_after(60_000).await, 1, "nothing was admitted since");
    spend(&limiter, 4);
    assert_eq!(saves_after(5_500).await, 2);
    keeper.abort();
    spend(&limiter, 5);
    Arc::clone(&file).save_now(Arc::clone(&limiter)).await;
    assert_eq!(file.saves(), 3);
    let _ = keeper.await;
    // A save that was under way goes on without the keeper, and holds the file.
    let is_free = || (Arc::strong_count(&file) == 1).then_some(());
    eventually("nobody saves any more", DEADLINE, is_free).unwrap();
    drop(file);
    assert_eq!(kept(&place), 12);
}

/// Says to the process that is killed where it saves.
const KILLED: &str = "TIDEGATE_TEST_COUNTS_OF_A_PROCESS_THAT_IS_KILLED";
/// Saves of a process that nobody kills: some seconds.
const SAVES_MAX: u64 = 20_000;

/// At whatever moment it is killed: what is there is whole, and never less than before.
#[test]
fn a_process_that_is_killed_leaves_a_whole_file() {
    if let Some(directory) = env::var_os(KILLED) {
        let file = open(Path::new(&directory), None, None);
        let limiter = limiter(file.restore());
        for _ in 0..SAVES_MAX {
            spend(&limiter, 1);
            file.save(&limiter);
        }
        return;
    }
    let (place, mut before) = (Place::new(), 0);
    for round in 0..8 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "counts_file::tests::a_process_that_is_killed_leaves_a_whole_file"])
            .env(KILLED, &place.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It goes on for a while, each time another.
        let more = || {
            let saved = File::open(place.file("counts.bin")).ok();
            let saved = saved.map(|file| Saved::read(file, None).unwrap());
            let now = saved.map_or(0, |saved| spent(&limiter(Some(saved))));
            (now > before + round).then_some(())
        };
        let grown = eventually("the counts grow", DEADLINE, more);
        child.kill().unwrap();
        child.wait().unwrap();
        grown.unwrap();
        let after = kept(&place);
        assert!(after > before, "round {round}: {before}, then {after}");
        assert!(!place.file("counts.bin.bad").exists());
        before = after;
    }
}
