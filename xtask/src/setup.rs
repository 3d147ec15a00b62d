//! What the machine must have, and how it gets it.
//!
//! Promises: with the right (root, or sudo that asks nothing) missing Debian packages are
//! installed; without it, one line says what to type. Either happens before anything is built.
//! Refuses: to start services, and to touch a server or a policy that is already there.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::child;
use crate::failure::{Failure, Result};
use crate::repo::Repo;

/// A program and the Debian package that brings it.
#[derive(Debug)]
pub(crate) struct Need {
    /// The program, as found on the search path.
    binary: &'static str,
    /// What it must be able to do, as arguments; empty when being there is enough.
    proof: &'static [&'static str],
    /// The package to install when the program is missing.
    package: &'static str,
    /// The service that the package brings, if any: it has a name of its own.
    service: Option<&'static str>,
    /// Who needs it.
    why: &'static str,
}

/// libFuzzer, which the fuzz targets link, is C++.
pub(crate) const CXX: Need =
    Need { binary: "c++", proof: &[], package: "g++", service: None, why: "libFuzzer is C++" };
/// Instruction counts come from callgrind.
pub(crate) const VALGRIND: Need = Need {
    binary: "valgrind",
    proof: &[],
    package: "valgrind",
    service: None,
    why: "`bench --callgrind` counts with it",
};
/// Another limiter's server is built with it.
pub(crate) const PROTOC: Need = Need {
    binary: "protoc",
    proof: &[],
    package: "protobuf-compiler",
    service: None,
    why: "`bench server` builds another limiter's server to compare with",
};

/// The tests of the drivers start servers of their own; a Sentinel is the same program.
pub(crate) const REDIS: Need = Need {
    binary: "redis-server",
    proof: &[],
    package: "redis-server",
    service: Some("redis-server"),
    why: "the tests of the drivers start private servers",
};
/// The same for the drivers of SQL databases. The package brings the client as well.
pub(crate) const MARIADB: Need = Need {
    binary: "mariadbd",
    proof: &[],
    package: "mariadb-server",
    service: Some("mariadb"),
    why: "the tests of the drivers start private servers",
};
/// The load balancer of the example fleet.
pub(crate) const HAPROXY: Need = Need {
    binary: "haproxy",
    proof: &[],
    package: "haproxy",
    service: Some("haproxy"),
    why: "`examples/fleet` is tested behind load balancers",
};

/// The alerts and the dashboard are asked of a real one; the package brings `promtool`, too.
pub(crate) const PROMETHEUS: Need = Need {
    binary: "promtool",
    proof: &[],
    package: "prometheus",
    service: Some("prometheus"),
    why: "the alerts and the dashboard are tested with it",
};

/// The published TypeScript clients run in it.
pub(crate) const NODE: Need = Need {
    binary: "node",
    proof: &[],
    package: "nodejs",
    service: None,
    why: "the published TypeScript clients are tested",
};
/// And are installed with this.
pub(crate) const NPM: Need = Need {
    binary: "npm",
    proof: &[],
    package: "npm",
    service: None,
    why: "the published TypeScript clients are installed with it",
};
/// The published Python client and schemathesis live in an environment of their own. Debian's
/// Python cannot make one without this package, so finding Python is not enough.
pub(crate) const PYTHON: Need = Need {
    binary: "python3",
    proof: &["-c", "import ensurepip, venv"],
    package: "python3-venv",
    service: None,
    why: "the published Python client and schemathesis are tested",
};

/// The page of a trial is looked at.
pub(crate) const CHROMIUM: Need = Need {
    binary: "chromium",
    proof: &[],
    package: "chromium",
    service: None,
    why: "the page of `tidegate simulate` is tested in it",
};

/// A server whose clock is wrong.
pub(crate) const FAKETIME: Need = Need {
    binary: "faketime",
    proof: &[],
    package: "faketime",
    service: None,
    why: "`chaos` runs servers whose clock is wrong",
};

/// Everything any command may need.
const ALL: [&Need; 11] = [
    &CXX,
    &VALGRIND,
    &REDIS,
    &MARIADB,
    &HAPROXY,
    &PROMETHEUS,
    &NODE,
    &NPM,
    &PYTHON,
    &CHROMIUM,
    &FAKETIME,
];

/// Installs the packages named by its arguments, after the first, which names their services.
/// Packages that bring a service start it unless `policy-rc.d` forbids it; a policy that is already
/// there is left alone. What it let start is stopped, and does not start at the next boot: none of
/// these packages was here before, and tests start servers of their own. Nothing is removed: a
/// MySQL that somebody uses would have to make room for a MariaDB.
const INSTALL: &str = r#"
set -eu
services=$1
shift
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends --no-remove "$@"
for service in $services; do
    if [ -e "/lib/systemd/system/$service.service" ] && command -v systemctl > /dev/null; then
        systemctl disable "$service.service" > /dev/null 2>&1 || true
        systemctl stop "$service.service" > /dev/null 2>&1 || true
    elif [ -e "/etc/init.d/$service" ]; then
        update-rc.d "$service" disable > /dev/null 2>&1 || true
        "/etc/init.d/$service" stop > /dev/null 2>&1 || true
    fi
done
"#;

/// `cargo xtask setup`.
pub(crate) fn command(args: &[String]) -> Result<()> {
    if let Some(unknown) = args.first() {
        return Err(Failure::usage(format!("`setup` takes no argument `{unknown}`")));
    }
    ensure(&ALL)?;
    for need in ALL {
        println!("{} is there ({})", need.binary, need.why);
    }
    Ok(())
}

/// Makes sure that the programs are there.
///
/// # Errors
/// Exit code 2, with the one line to type, when they are not and we may not install them.
pub(crate) fn ensure(needs: &[&Need]) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().copied().filter(|need| !is_there(need)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for need in &missing {
        println!("missing: {} ({})", need.binary, need.why);
    }
    let Some(installer) = installer() else {
        return Err(Failure::machine(format!("please run: {}", advice(&missing))));
    };
    install(installer, &missing)?;
    match missing.iter().find(|need| !is_there(need)) {
        None => Ok(()),
        Some(need) => Err(Failure::machine(format!(
            "`{}` is still missing after the package `{}` was installed",
            need.binary, need.package
        ))),
    }
}

/// Makes sure that a part of the toolchain is there: `cargo fmt` or `cargo clippy`.
pub(crate) fn ensure_component(repo: &Repo, name: &str) -> Result<()> {
    let mut command = repo.cargo();
    command.args([name, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let component = if name == "fmt" { "rustfmt" } else { name };
    Err(Failure::machine(format!(
        "`cargo {name}` is missing; please run: rustup component add {component}"
    )))
}

/// The line to type by hand.
fn advice(missing: &[&Need]) -> String {
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    format!(
        "sudo apt-get update && \
         sudo apt-get install -y --no-install-recommends --no-remove {}",
        packages.join(" ")
    )
}

/// Runs the installation.
fn install(mut installer: Command, missing: &[&Need]) -> Result<()> {
    let services: Vec<&str> = missing.iter().filter_map(|need| need.service).collect();
    installer.args(["-c", INSTALL, "install", &services.join(" ")]);
    installer.args(missing.iter().map(|need| need.package));
    println!("installing: {}", advice(missing));
    let ended = child::watch(installer, None, |line| println!("{line}"))?;
    if ended.is_success() {
        return Ok(());
    }
    Err(Failure::machine(format!(
        "apt-get did not succeed ({}); please run: {}",
        ended.describe(),
        advice(missing)
    )))
}

/// A shell that may install packages, if apt is here and we have the right.
fn installer() -> Option<Command> {
    if !on_path("apt-get") {
        return None;
    }
    if user_is_root() {
        return Some(Command::new("sh"));
    }
    let mut trial = Command::new("sudo");
    trial.args(["-n", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !trial.status().is_ok_and(|status| status.success()) {
        return None;
    }
    let mut command = Command::new("sudo");
    command.args(["-n", "sh"]);
    Some(command)
}

/// Whether the effective user is root.
fn user_is_root() -> bool {
    let mut command = Command::new("id");
    command.arg("-u");
    child::output(command).is_ok_and(|text| text.trim() == "0")
}

/// Whether a program is there and can do what it is needed for.
fn is_there(need: &Need) -> bool {
    if need.proof.is_empty() || !on_path(need.binary) {
        return on_path(need.binary);
    }
    let mut command = Command::new(need.binary);
    command.args(need.proof).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether a program is on the search path.
fn on_path(binary: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    // Packages may install where only root looks.
    let system = ["/usr/sbin", "/sbin"].map(Path::new);
    env::split_paths(&path).any(|dir| dir.join(binary).is_file())
        || system.iter().any(|dir| dir.join(binary).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: Need =
        Need { binary: "sh", proof: &[], package: "no-such-package", service: None, why: "a test" };

    #[test]
    fn what_is_there_is_not_installed() {
        assert!(ensure(&[&SHELL]).is_ok());
        assert!(!on_path("no-such-program"));
    }

    #[test]
    fn a_program_that_cannot_do_what_is_needed_is_missing() {
        assert!(is_there(&Need { proof: &["-c", "exit 0"], ..SHELL }));
        assert!(!is_there(&Need { proof: &["-c", "exit 1"], ..SHELL }));
        assert!(!is_there(&Need { binary: "no-such-program", proof: &["-c"], ..SHELL }));
    }

    #[test]
    fn the_advice_is_one_line() {
        let line = advice(&ALL);
        assert!(line.contains(
            " --no-remove g++ valgrind redis-server mariadb-server haproxy prometheus nodejs npm "
        ));
        assert!(line.ends_with(" python3-venv chromium faketime"));
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn the_installation_is_a_shell_script_that_parses() {
        let mut command = Command::new("sh");
        command.args(["-n", "-c", INSTALL]);
        assert!(child::output(command).is_ok());
    }
}
