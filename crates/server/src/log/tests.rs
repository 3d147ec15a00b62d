use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use proptest::prelude::*;
use tidegate::ManualClock;

use super::line::Said;
use super::queue::{LINES_MAX, MINUTE_MS, PER_MINUTE_MAX};
use super::*;

/// The page that lists them.
const PAGE: &str = include_str!("../../../../docs/logs.md");
/// Long enough for anything that happens at all.
const DEADLINE: Duration = Duration::from_secs(30);

/// What ends a line or turns it round for some readers.
const HIDDEN: [char; 4] = ['\u{2028}', '\u{2029}', '\u{202e}', '\u{2066}'];

const JSON: LogSettings = LogSettings { form: Form::Json, level: Level::Info };

/// Somewhere to write to that keeps it all.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn lines(&self) -> Vec<serde_json::Value> {
        let bytes = self.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Somewhere that takes a write only when it is let.
struct Stalled {
    tried: Sender<()>,
    let_go: Receiver<()>,
    paper: Paper,
}

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.tried.send(());
        let _ = self.let_go.recv();
        self.paper.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at_unix_ms(951_782_399_042))
}

fn saved(number: u64) -> Event {
    Event::CountsAwaited { path: Text::of_test("p"), at_most_ms: number }
}

#[test]
fn the_page_lists_every_event_as_it_is() {
    let row = |kind: &event::Kind| {
        let fields: Vec<String> = kind.fields.iter().map(|name| format!("`{name}`")).collect();
        let level = kind.level.as_str();
        format!("| `{}` | {level} | {} | {} |", kind.name, kind.message, fields.join(", "))
    };
    let rows: Vec<String> = Event::KINDS.iter().map(row).collect();
    let listed: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows == listed, "docs/logs.md should have these rows:\n{}", rows.join("\n"));
}

#[test]
fn names_are_plain_and_no_two_alike() {
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let mut names: Vec<&str> = Event::KINDS.iter().map(|kind| kind.name).collect();
    assert!(names.iter().all(|name| plain(name)), "{names:?}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Event::KINDS.len());
    for kind in Event::KINDS {
        let taken = ["time", "level", "event", "message", "suppressed"];
        assert!(kind.fields.iter().all(|field| plain(field) && !taken.contains(field)), "{kind:?}");
        assert!(kind.message.is_ascii() && !kind.message.contains('\n'), "{kind:?}");
    }
}

#[test]
fn a_line_has_the_time_of_the_clock_and_every_field() {
    let event = Event::RegionAway {
        place: Text::of_test("redis at cache:6379"),
        why: None,
        breakers_open: 2,
    };
    let said = Said { event, unix_ms: 951_782_399_042, suppressed: 3 };
    let (mut json, mut pretty) = (String::new(), String::new());
    said.write(Form::Json, &mut json);
    said.write(Form::Pretty, &mut pretty);
    assert_eq!(
        json,
        "{\"time\":\"2000-02-28T23:59:59.042Z\",\"level\":\"warn\",\"event\":\"region_away\",\
         \"message\":\"the region does not answer: requests are decided here alone or denied, as \
         namespaces say\",\"place\":\"redis at cache:6379\",\"breakers_open\":2,\"suppressed\":3}\n"
    );
    assert_eq!(
        pretty,
        "2000-02-28T23:59:59.042Z warn region_away: the region does not answer: requests are \
         decided here alone or denied, as namespaces say place=\"redis at cache:6379\" \
         breakers_open=2 suppressed=3\n"
    );
}

proptest! {
    #[test]
    fn whatever_is_in_a_field_a_line_is_one_object(
        text in any::<String>(),
        number in any::<u64>(),
        unix_ms in 0..=(1_u64 << 48),
    ) {
        let event = Event::CountsAwaited { path: Text::of_test(&text), at_most_ms: number };
        let said = Said { event, unix_ms, suppressed: 0 };
        for form in [Form::Json, Form::Pretty] {
            let mut line = String::new();
            said.write(form, &mut line);
            let body = line.strip_suffix('\n').unwrap();
            prop_assert!(!body.chars().any(char::is_control), "{body:?}");
            prop_assert!(!body.contains(HIDDEN), "{:?}", body);
            if form == Form::Json {
                let read: serde_json::Value = serde_json::from_str(body).unwrap();
                prop_assert_eq!(&read["path"], &text);
                prop_assert_eq!(&read["at_most_ms"], number);
            }
        }
    }
}

#[test]
fn what_matters_less_is_not_said() {
    let (paper, clock) = (Paper::default(), clock());
    let settings = LogSettings { level: Level::Warn, ..JSON };
    let log = Log::start(settings, clock, paper.clone()).unwrap();
    log.say(saved(1));
    log.say(Event::FilesFew { connections_max: 7 });
    log.flush(DEADLINE);
    let lines = paper.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        (&lines[0]["event"], &lines[0]["connections_max"]),
        (&"files_few".into(), &7.into())
    );
    Log::off().say(saved(1));
}

#[test]
fn an_event_that_repeats_is_held_to_a_rate_and_the_rest_is_counted() {
    let (paper, clock) = (Paper::default(), clock());
    let log = Log::start(JSON, Arc::clone(&clock) as _, paper.clone()).unwrap();
    for number in 0..100 {
        log.say(saved(number));
    }
    log.say(Event::FilesFew { connections_max: 1 });
    log.tick();
    clock.advance(Duration::from_millis(MINUTE_MS));
    log.say(saved(100));
    for number in 0..100 {
        log.say(saved(number));
    }
    clock.advance(Duration::from_millis(MINUTE_MS));
    log.tick();
    log.tick();
    log.flush(DEADLINE);
    let lines = paper.lines();
    let burst = usize::try_from(PER_MINUTE_MAX).unwrap();
    assert_eq!(lines.len(), burst + 1 + burst + 1, "{lines:?}");
    assert_eq!(lines[burst]["event"], "files_few", "another name is another rate");
    let (next, last) = (&lines[burst + 1], &lines[lines.len() - 1]);
    assert_eq!((&next["at_most_ms"], &next["suppressed"]), (&100.into(), &90.into()));
    assert_eq!(last["event"], "events_suppressed");
    assert_eq!((&last["name"], &last["count"]), (&"counts_awaited".into(), &91.into()));
}

#[test]
fn whoever_says_something_never_waits_and_what_is_lost_is_said() {
    let (paper, clock) = (Paper::default(), clock());
    let ((tried, tries), (free, let_go)) = (channel(), channel());
    let out = Stalled { tried, let_go, paper: paper.clone() };
    let log = Log::start(JSON, Arc::clone(&clock) as _, out).unwrap();
    log.say(saved(0));
    // The thread has taken the first line and is stuck with it.
    tries.recv_timeout(DEADLINE).unwrap();
    for number in 0..LINES_MAX + 50 {
        // Each in a minute of its own, or the rate would hold them back.
        clock.advance(Duration::from_millis(MINUTE_MS));
        log.say(saved(u64::try_from(number).unwrap()));
    }
    assert_eq!(log.dropped(), 50);
    log.flush(Duration::from_millis(1));
    drop(free);
    log.flush(DEADLINE);
    clock.advance(Duration::from_millis(MINUTE_MS));
    log.say(saved(7));
    log.flush(DEADLINE);
    let lines = paper.lines();
    assert_eq!(lines.len(), 1 + LINES_MAX + 2);
    let told = &lines[lines.len() - 2];
    assert_eq!((&told["event"], &told["count"]), (&"log_dropped".into(), &50.into()));
}

#[test]
fn a_closed_pipe_ends_nothing_and_is_counted() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = Log::start(JSON, clock(), Closed).unwrap();
    log.say(saved(1));
    log.flush(DEADLINE);
    assert_eq!(log.dropped(), 1);
}

#[test]
fn long_text_is_cut() {
    let long = io::Error::other("é".repeat(5_000));
    let cut = format!("{:?}", Text::of(&long));
    assert_eq!(cut.matches('é').count(), 400);
    assert!(cut.contains("é…"), "and that can be seen");
    let short = format!("{:?}", Text::of(&io::Error::other("é".repeat(400))));
    assert!(!short.contains('…'), "{short}");
    let why = crate::serve::ServeError::Listen("127.0.0.1:1".parse().unwrap(), long);
    assert!(format!("{:?}", Text::of(&why)).matches('é').count() > 3_000, "a list of mistakes");
}

fn reloaded(changed: u64) -> Event {
    Event::ConfigReloaded { what: Text::of_test("w"), changed, waiting: 0 }
}

#[test]
fn what_an_operator_changed_or_mistook_is_said_however_often() {
    let paper = Paper::default();
    let log = Log::start(JSON, clock(), paper.clone()).unwrap();
    for _ in 0..50 {
        log.say(reloaded(0));
    }
    log.say(reloaded(1));
    log.say(Event::ConfigNotTaken { why: Text::of_test("m") });
    log.flush(DEADLINE);
    let lines = paper.lines();
    let burst = usize::try_from(PER_MINUTE_MAX).unwrap();
    assert_eq!(lines[burst]["changed"], 1, "{lines:?}");
    assert_eq!(lines[burst + 1]["event"], "config_not_taken", "{lines:?}");
}

#[test]
fn a_change_of_the_level_is_said_both_ways() {
    let paper = Paper::default();
    let log = Log::start(JSON, clock(), paper.clone()).unwrap();
    log.turn_to(Level::Warn, |log| log.say(reloaded(1)));
    log.say(saved(0));
    log.turn_to(Level::Info, |log| log.say(reloaded(2)));
    log.say(saved(3));
    log.flush(DEADLINE);
    let lines = paper.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!((&lines[0]["changed"], &lines[1]["changed"]), (&1.into(), &2.into()));
    assert_eq!(lines[2]["at_most_ms"], 3);
}

#[test]
fn a_log_whose_thread_panics_goes_on() {
    struct Once(bool, Paper);
    impl Write for Once {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(std::mem::replace(&mut self.0, true), "the first time it panics");
            self.1.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let paper = Paper::default();
    let log = Log::start(JSON, clock(), Once(false, paper.clone())).unwrap();
    log.say(saved(1));
    log.flush(DEADLINE);
    assert_eq!(log.dropped(), 1);
    log.say(saved(2));
    log.flush(DEADLINE);
    let lines = paper.lines();
    assert_eq!(lines[0]["event"], "log_dropped", "{lines:?}");
    assert_eq!(lines[1]["at_most_ms"], 2, "{lines:?}");
}

#[test]
fn people_who_do_not_read_keep_nobody_waiting() {
    let paper = Paper::default();
    let ((tried, tries), (free, let_go)) = (channel(), channel());
    let out = Stalled { tried, let_go, paper: paper.clone() };
    let people = people::People::start(out).unwrap();
    people.tell("first".to_owned());
    tries.recv_timeout(DEADLINE).unwrap();
    // More than there is room for.
    for _ in 0..1_000 {
        people.tell("next".to_owned());
    }
    people.flush(Duration::from_millis(1));
    drop(free);
    let has_read = || paper.0.lock().unwrap().starts_with(b"first\nnext\n").then_some(());
    tidegate_lab::eventually("what had room is read", DEADLINE, has_read).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_panics_is_begun_again_and_that_is_said() {
    let (paper, clock) = (Paper::default(), clock());
    let log = Log::start(JSON, clock, paper.clone()).unwrap();
    let (times, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let mut begun = 0;
    let task = panics::keep("test", &log, move || {
        begun += 1;
        let (times, begun) = (times.clone(), begun);
        async move {
            times.send(begun).unwrap();
            assert!(begun > 2, "this time it panics");
            std::future::pending().await
        }
    });
    for expected in 1..=3 {
        assert_eq!(seen.recv().await, Some(expected));
    }
    log.flush(DEADLINE);
    let restarts = paper.lines();
    assert_eq!(restarts.len(), 2, "{restarts:?}");
    assert!(restarts.iter().all(|line| line["event"] == "task_restarted"), "{restarts:?}");
    task.abort();
    // What it kept ends with it: nobody holds the other end any more.
    assert_eq!(tokio::time::timeout(DEADLINE, seen.recv()).await.unwrap(), None);
}
