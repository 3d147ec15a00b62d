//! Running other people's programs, with a deadline.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{Server, Settled, eventually};

/// The scripts as they are committed.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk");

/// Far more than any of them takes; a program that hangs must not hang the tests.
const DEADLINE: Duration = Duration::from_secs(240);

/// Where the clients are installed.
pub(crate) fn installed() -> PathBuf {
    let place = std::env::var_os("TIDEGATE_SDK");
    PathBuf::from(place.expect("run this as `cargo xtask test --only sdk`"))
}

/// A directory beside the installed clients, where scripts find them; removed when dropped.
pub(crate) struct Home(PathBuf);

impl Home {
    /// With all our modules in it.
    pub(crate) fn new() -> Self {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        // ORDER: relaxed, a counter that orders nothing.
        let turn = TAKEN.fetch_add(1, Ordering::Relaxed);
        let name = format!("run-{}-{turn}", std::process::id());
        let home = Self(installed().join("npm").join(name));
        fs::create_dir_all(&home.0).unwrap();
        for entry in fs::read_dir(SOURCE).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "mjs") {
                fs::copy(&path, home.0.join(path.file_name().unwrap())).unwrap();
            }
        }
        home
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Puts a file there and says where.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that is about to run.
pub(crate) struct Program(Command);

/// One of our scripts, or a snippet that was written there.
pub(crate) fn node(home: &Home, script: &str) -> Program {
    let mut command = Command::new("node");
    command.arg(home.path().join(script));
    Program(command)
}

/// One of our scripts.
pub(crate) fn python(script: &str) -> Program {
    python_at(&Path::new(SOURCE).join(script))
}

pub(crate) fn python_at(script: &Path) -> Program {
    let mut program = in_environment("python");
    program.0.arg(script);
    program
}

/// A program that came with the Python packages.
pub(crate) fn in_environment(name: &str) -> Program {
    let mut command = Command::new(installed().join("pip/venv/bin").join(name));
    // Nothing is left between the sources, and our modules are found.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", SOURCE);
    Program(command)
}

impl Program {
    /// Says where the server is and which key opens it.
    pub(crate) fn against(mut self, server: &Server) -> Self {
        self.0.env("TIDEGATE_URL", format!("http://{}", server.address));
        self.0.env("TIDEGATE_ROOT_KEY", "tidegate_test");
        self
    }

    /// The same, and who may not do everything there.
    pub(crate) fn against_settled(mut self, settled: &Settled) -> Self {
        self.0.env("TIDEGATE_KEY_POWERLESS", &settled.powerless);
        self.0.env("TIDEGATE_KEY_THROTTLED", &settled.throttled);
        self.0.env("TIDEGATE_NAMESPACE_DELETED", Settled::DELETED);
        self.against(&settled.server)
    }

    /// Says which fields every answer has beyond those of the contract.
    pub(crate) fn with_added(mut self, fields: &str) -> Self {
        self.0.env("TIDEGATE_ADDS", fields);
        self
    }

    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.0
    }

    /// Runs it to its end, which must be a success, and gives what it said.
    pub(crate) fn succeeds(mut self) -> String {
        // A file, because a pipe that nobody empties stops whoever fills it.
        let log = Home::new();
        let path = log.path().join("log.txt");
        let file = File::create(&path).unwrap();
        self.0.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut child = Running(self.0.spawn().unwrap());
        let status = eventually(DEADLINE, || child.0.try_wait().unwrap());
        let said = fs::read_to_string(&path).unwrap();
        print!("{said}");
        assert!(status.success(), "{status}");
        said
    }
}

/// A child process; killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
