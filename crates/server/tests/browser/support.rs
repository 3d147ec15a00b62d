//! Writing pages, and running the script that looks at them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_trial::Findings;

/// The scripts as they are committed.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser");

/// A check takes seconds; a browser that hangs must not hang the tests.
const DEADLINE: Duration = Duration::from_secs(180);

/// Where the browser's driver is installed, and screenshots go.
fn installed() -> PathBuf {
    let place = std::env::var_os("TIDEGATE_BROWSER");
    PathBuf::from(place.expect("run this as `cargo xtask test --only browser`"))
}

/// A directory beside the driver, where scripts find it; removed when dropped.
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn new() -> Self {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        // ORDER: relaxed, a counter that orders nothing.
        let turn = TAKEN.fetch_add(1, Ordering::Relaxed);
        let home = installed().join("npm").join(format!("run-{}-{turn}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        for script in ["browser.mjs", "look.mjs"] {
            fs::copy(Path::new(SOURCE).join(script), home.join(script)).unwrap();
        }
        Self(home)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A page in a file.
pub(crate) struct Page {
    pub(crate) home: Home,
    pub(crate) name: &'static str,
}

impl Page {
    /// Where it is.
    pub(crate) fn file(&self) -> PathBuf {
        self.home.path().join(self.name).with_extension("html")
    }
}

/// Writes the page of what was found.
pub(crate) fn page(name: &'static str, findings: &Findings) -> Page {
    let page = Page { home: Home::new(), name };
    fs::write(page.file(), tidegate_trial::page(findings)).unwrap();
    page
}

/// Looks at a page; the check must hold.
pub(crate) fn holds(check: &str, page: &Page) {
    let log = page.home.path().join("log.txt");
    // A file, because a pipe that nobody empties stops whoever fills it.
    let file = File::create(&log).unwrap();
    let mut command = Command::new("node");
    command.arg(page.home.path().join("look.mjs")).arg(check).arg(page.file());
    command.env("TIDEGATE_BROWSER", installed());
    command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
    let mut child = Running(command.spawn().unwrap());
    let status =
        tidegate_lab::eventually("the check ends", DEADLINE, || child.0.try_wait().unwrap());
    let said = fs::read_to_string(&log).unwrap();
    print!("{}: {said}", page.name);
    assert!(status.unwrap().success(), "{}: {said}", page.name);
}

/// A child process; killed when dropped. Its browser ends with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
