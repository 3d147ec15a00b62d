use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::{Client, DEADLINE, eventually};

/// A child process; killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running `tidegate serve`; killed when dropped.
pub(crate) struct Server {
    child: Running,
    pub(crate) address: SocketAddr,
    key: String,
    said: Lines,
    reader: JoinHandle<()>,
    warned: Lines,
}

/// What was printed so far.
type Lines = Arc<Mutex<Vec<String>>>;

/// Reads what is printed into `lines`, up to the one with `last` in it.
fn read(
    from: impl Read + Send + 'static,
    lines: &Lines,
    last: Option<&'static str>,
) -> JoinHandle<()> {
    let lines = Arc::clone(lines);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let is_last = last.is_some_and(|last| line.contains(last));
            lines.lock().unwrap().push(line);
            if is_last {
                break;
            }
        }
    })
}

/// The key that servers are given unless a test says otherwise.
pub(crate) const KEY: &str = "tidegate_test";

/// The binary, with a key and a data directory of its own, in an environment that says nothing
/// about stores.
pub(crate) fn tidegate(args: &[&str]) -> Command {
    program(env!("CARGO_BIN_EXE_tidegate"), args)
}

/// The same for what starts the binary.
pub(crate) fn program(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args).env("TIDEGATE_ROOT_KEY", KEY).env("TIDEGATE_DATA", data_dir());
    command.env_remove("TIDEGATE_DATABASE").env_remove("TIDEGATE_URL");
    command.env_remove("TIDEGATE_REDIS").env_remove("TIDEGATE_FLEET_SECRET");
    command.env_remove("TIDEGATE_ADMIN_LISTEN").env_remove("TIDEGATE_ADMIN_EXPOSED");
    command.env_remove("TIDEGATE_GLOBE").env_remove("TIDEGATE_REGION");
    command.env_remove("TIDEGATE_CONSISTENCY").env_remove("TIDEGATE_LOG_LEVEL");
    // Nothing here is a terminal, and the tests read what people read.
    command.env("TIDEGATE_LOG_FORMAT", "pretty");
    command.env_remove("TIDEGATE_METRICS_WORKSPACES");
    command.env_remove("TIDEGATE_CONFIG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A directory that nobody else has. It is in the build directory, and the next run wipes it.
pub(crate) fn data_dir() -> PathBuf {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let number = TAKEN.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wire/{number}"));
    let _ = std::fs::remove_dir_all(&path);
    path
}

impl Server {
    /// On a free port, with the usual key.
    pub(crate) fn start() -> Self {
        Self::start_with(&mut tidegate(&["serve", "--listen", "127.0.0.1:0"]), KEY)
    }

    /// The same, with more to say.
    pub(crate) fn start_saying(args: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        Self::start_with(&mut tidegate(&args), KEY)
    }

    /// Runs what ends by itself; gives its exit code, and what it said on both outputs.
    pub(crate) fn run_to_end(command: &mut Command) -> (Option<i32>, String) {
        let mut child = Running(command.spawn().unwrap());
        let status = eventually(DEADLINE, || child.0.try_wait().unwrap());
        let mut said = String::new();
        child.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }

    pub(crate) fn start_with(command: &mut Command, key: &str) -> Self {
        Self::start_heard_until(command, key, None)
    }

    /// Closes the pipe it prints into once it has said its welcome.
    pub(crate) fn start_unheard() -> Self {
        let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
        let server = Self::start_heard_until(&mut command, KEY, Some("Ctrl-C"));
        eventually(DEADLINE, || server.reader.is_finished().then_some(()));
        server
    }

    /// One whose log is for programs, which are told the address in it.
    pub(crate) fn start_for_programs(command: &mut Command, key: &str) -> Self {
        let mut server = Self::begin(command.env("TIDEGATE_LOG_FORMAT", "json"), key, None);
        let line = server.wait_for_warning("\"event\":\"started\"");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        server.address = line["address"].as_str().unwrap().parse().unwrap();
        server
    }

    /// One that is not waited for. Its address is not known yet.
    pub(crate) fn begin(command: &mut Command, key: &str, last: Option<&'static str>) -> Self {
        let mut child = Running(command.spawn().unwrap());
        let (said, warned) = (Lines::default(), Lines::default());
        let reader = match child.0.stdout.take() {
            Some(out) => read(out, &said, last),
            None => read(std::io::empty(), &said, last),
        };
        read(child.0.stderr.take().unwrap(), &warned, None);
        let (address, key) = ("127.0.0.1:0".parse().unwrap(), key.to_owned());
        Self { child, address, key, said, reader, warned }
    }

    fn start_heard_until(command: &mut Command, key: &str, last: Option<&'static str>) -> Self {
        let mut server = Self::begin(command, key, last);
        let line = server.wait_for_line("listens on http");
        server.address = line.rsplit('/').next().unwrap().parse().unwrap();
        // The rest of the welcome follows in the same breath.
        server.wait_for_line("Ctrl-C");
        server
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address, &self.key)
    }

    /// Everything printed so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Everything printed for the log so far.
    pub(crate) fn warned(&self) -> Vec<String> {
        self.warned.lock().unwrap().clone()
    }

    /// The first line for the log that contains `text`.
    pub(crate) fn wait_for_warning(&self, text: &str) -> String {
        let found = || self.warned().into_iter().find(|line| line.contains(text));
        eventually(DEADLINE, found)
    }

    /// The first printed line that contains `text`.
    pub(crate) fn wait_for_line(&self, text: &str) -> String {
        eventually(DEADLINE, || {
            // Asked before looking: what was printed before the end is then seen.
            let has_ended = self.reader.is_finished();
            if let Some(line) = self.said().into_iter().find(|line| line.contains(text)) {
                return Some(line);
            }
            if has_ended {
                panic!("ended without saying {text:?}: {:?}", self.warned());
            }
            None
        })
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.0.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        eventually(DEADLINE, || self.child.0.try_wait().unwrap())
    }
}
