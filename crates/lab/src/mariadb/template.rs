//! An initialised data directory, made once and copied for every server: making one takes seconds.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::place::Directory;
use crate::{Error, Result};

/// Changes when what is made below changes: a template of an older build is of no use then.
const EDITION: u32 = 1;
/// The servers are told the same, or they would make their logs anew.
const LOG_SIZE: &str = "--innodb-log-file-size=8M";

/// The template for a program. It stays in the temporary directory, for the next process as well;
/// its name tells the program's version and the user.
pub(super) fn of(program: &str) -> Result<PathBuf> {
    // One maker in this process; with other processes, the rename decides.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let version = run(Command::new(program).args(["--no-defaults", "--version"]), program)?;
    let mut hasher = DefaultHasher::new();
    (EDITION, program, &version, user()).hash(&mut hasher);
    let name = format!("tidegate-lab-template-{:016x}", hasher.finish());
    let place = std::env::temp_dir().join(name);
    if place.is_dir() {
        return Ok(place);
    }
    let home = Directory::new()?;
    let data = home.path().join("data");
    initialise(program, &version, &data)?;
    match fs::rename(&data, &place) {
        Err(why) if !place.is_dir() => Err(Error::because("the template")(why)),
        _ => Ok(place),
    }
}

/// Servers refuse to run as root unless they are told to.
pub(super) fn user() -> Option<String> {
    let output = Command::new("id").arg("-u").stdin(Stdio::null()).output().ok()?;
    (output.stdout.trim_ascii() == b"0").then(|| "--user=root".to_owned())
}

/// Copies a template.
pub(super) fn copy(template: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp").arg("-R").arg(template).arg(to), "cp").map(drop)
}

/// Makes a data directory.
fn initialise(program: &str, version: &str, data: &Path) -> Result<()> {
    let place = format!("--datadir={}", data.display());
    let mut args = vec!["--no-defaults".to_owned()];
    args.extend(user());
    args.push(place);
    if version.contains("MariaDB") {
        args.push("--auth-root-authentication-method=normal".to_owned());
        args.push("--skip-test-db".to_owned());
        args.push(LOG_SIZE.to_owned());
        let maker = "mariadb-install-db";
        return run(Command::new(maker).args(&args), maker).map(drop);
    }
    args.push("--initialize-insecure".to_owned());
    run(Command::new(program).args(&args), program).map(drop)
}

/// What a command says, if it succeeds.
fn run(command: &mut Command, name: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|why| {
        Error::new(format!("`{name}` does not start ({why}); run `cargo xtask setup`"))
    })?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        return Err(Error::new(format!("{name}: {}: {}", output.status, said(&output.stderr))));
    }
    Ok(said(&output.stdout))
}
