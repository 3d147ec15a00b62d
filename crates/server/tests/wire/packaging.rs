//! What comes with the binary: manual pages, the unit for systemd, the image, and its version.

use std::path::Path;
use std::process::Command;

use crate::support::{KEY, Server, data_dir, tidegate};

const UNIT: &str = include_str!("../../../../packaging/tidegate.service");
const IMAGE: &str = include_str!("../../../../Dockerfile");

fn run(args: &[&str], code: i32) -> String {
    let (ended_with, said) = Server::run_to_end(&mut tidegate(args));
    assert_eq!(ended_with, Some(code), "{args:?}: {said}");
    said
}

/// The names of the commands that a help lists.
fn commands(of: &[&str]) -> Vec<String> {
    let said = run(&[of, &["--help"]].concat(), 0);
    let Some((_, listed)) = said.split_once("\nCommands:\n") else { return vec![] };
    let names = listed.lines().take_while(|line| line.starts_with("  "));
    let names = names
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = data_dir();
    run(&["man", directory.to_str().unwrap()], 0);
    let page = |name: &str| {
        let path = directory.join(format!("{name}.1"));
        std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    };
    let top = commands(&[]);
    assert!(top.len() > 10 && top.contains(&"serve".to_owned()), "{top:?}");
    assert!(page("tidegate").contains("tidegate\\-serve(1)"));
    for command in &top {
        assert!(page(&format!("tidegate-{command}")).starts_with(".ie"), "{command}");
        for below in commands(&[command]) {
            page(&format!("tidegate-{command}-{below}"));
        }
    }
    let serve = page("tidegate-serve");
    assert!(serve.contains("admin\\-listen") && serve.contains("ROOT_KEY"));
    assert!(!serve.contains(KEY), "what is in the environment is not in a page");
}

/// Whether it is the commit that the builder said, or else one of this repository; `None` if nobody
/// said one and the sources have no history here.
fn is_of_the_history(commit: &str) -> Option<bool> {
    if let Some(said) = std::env::var("TIDEGATE_COMMIT").ok().filter(|said| !said.is_empty()) {
        return Some(said == commit);
    }
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(env!("CARGO_MANIFEST_DIR")).args(args);
        git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        let output = git.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    git(&["rev-parse", "--show-prefix"]).filter(|prefix| prefix == "crates/server/")?;
    git(&["rev-parse", "--verify", "HEAD"])?;
    Some(git(&["rev-parse", "--verify", &format!("{commit}^{{commit}}")]).is_some())
}

#[test]
fn it_says_which_program_it_is() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(run(&["-V"], 0), format!("tidegate {version}\n"));
    let long = run(&["--version"], 0);
    let mut lines = long.lines();
    assert_eq!(lines.next(), Some(format!("tidegate {version}").as_str()));
    let commit = lines.next().and_then(|line| line.strip_prefix("commit: "));
    let commit = commit.unwrap_or_else(|| panic!("{long}"));
    assert!(is_of_the_history(commit).unwrap_or(commit == "unknown"), "{long}");
    assert!(lines.next().is_some_and(|line| line.starts_with("features: ")), "{long}");
}

#[test]
fn health_is_an_exit_code() {
    let server = Server::start_saying(&["--retire-for", "1h"]);
    let url = format!("http://{}", server.address);
    assert_eq!(run(&["health", "--url", &url], 0), "ready\n");
    server.signal("TERM");
    server.wait_for_line("retiring");
    assert_eq!(run(&["health", "--url", &url], 3), "retiring\n");
    assert!(run(&["health", "--url", "http://127.0.0.1:1"], 3).contains("cannot reach"));
    assert!(run(&["health", "--url", "here"], 2).contains("TIDEGATE_URL"));
}

#[test]
fn unit_and_image_name_only_variables_that_there_are() {
    let known = run(&["serve", "--help"], 0) + &run(&["health", "--help"], 0);
    for file in [UNIT, IMAGE] {
        let is_part = |char: char| char.is_ascii_uppercase() || char == '_';
        let words = file.split(|char| !is_part(char));
        let variables: Vec<&str> = words.filter(|word| word.starts_with("TIDEGATE_")).collect();
        assert!(variables.contains(&"TIDEGATE_ROOT_KEY"), "{variables:?}");
        assert!(variables.contains(&"TIDEGATE_ADMIN_EXPOSED"), "{variables:?}");
        // That one is for the compiler.
        for name in variables.into_iter().filter(|name| *name != "TIDEGATE_COMMIT") {
            let is_known =
                ["]", "="].iter().any(|end| known.contains(&format!("[env: {name}{end}")));
            assert!(is_known, "{name}: {known}");
        }
    }
}

#[test]
fn health_of_a_server_can_be_asked_at_its_admin_listener() {
    let server = Server::start_saying(&["--admin-listen", "127.0.0.1:0"]);
    let line = server.wait_for_line("/metrics");
    let url = line.trim().trim_start_matches("metrics").trim().trim_end_matches("/metrics");
    assert_eq!(run(&["health", "--url", url], 0), "ready\n");
}

#[test]
fn a_key_that_was_made_before_is_not_in_what_the_server_says() {
    let directory = data_dir();
    let alone = |args: &[&str]| {
        let mut command = tidegate(args);
        command.env("TIDEGATE_DATA", &directory).env_remove("TIDEGATE_ROOT_KEY");
        command
    };
    let (code, said) = Server::run_to_end(&mut alone(&["key", "create", "--name", "first"]));
    assert_eq!(code, Some(0), "{said}");
    let server = Server::start_with(&mut alone(&["serve", "--listen", "127.0.0.1:0"]), KEY);
    assert!(server.wait_for_line("root key").contains("as it was made before"));
}

#[test]
fn the_unit_reloads_the_file_that_comes_with_it() {
    assert!(UNIT.contains("\nExecReload=kill -HUP $MAINPID\n"));
    assert!(UNIT.contains("TIDEGATE_CONFIG=/etc/tidegate/tidegate.toml\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/tidegate.toml");
    let said = run(&["check-config", path.to_str().unwrap()], 0);
    assert!(said.contains(" is in order."), "{said}");
}

/// The words of the unit's command line, without the path of the binary.
fn started_by_unit() -> Vec<&'static str> {
    let line = UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/tidegate "));
    line.unwrap().split(' ').collect()
}

#[test]
fn the_unit_starts_what_there_is_and_systemd_takes_it() {
    assert!(!run(&[&started_by_unit()[..], &["--help"]].concat(), 0).is_empty());
    let directory = data_dir();
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("tidegate.service");
    // Where it is installed there is nothing on this machine.
    let unit = UNIT.replace("/usr/bin/tidegate", env!("CARGO_BIN_EXE_tidegate"));
    std::fs::write(&path, unit).unwrap();
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return;
    }
    let analyze = |args: &[&str], path: &Path| {
        let output = Command::new("systemd-analyze").args(args).arg(path).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (fine, said) = analyze(&["verify", "--man=no"], &path);
    assert!(fine && !said.contains("tidegate.service"), "{said}");
    // 0 is the least exposed of 100.
    let (fine, said) = analyze(&["security", "--offline=true", "--threshold=20"], &path);
    assert!(fine, "{said}");
}

#[test]
fn the_image_says_only_what_the_binary_knows() {
    let words = |begin: &str| -> Vec<String> {
        let line = IMAGE.lines().find(|line| line.starts_with(begin)).unwrap();
        serde_json::from_str(line.get(line.find('[').unwrap()..).unwrap()).unwrap()
    };
    let serve = [words("ENTRYPOINT "), words("CMD ")].concat();
    for line in [serve, words("HEALTHCHECK ")] {
        assert_eq!(line[0], "tidegate");
        let known: Vec<&str> = line[1..].iter().map(String::as_str).chain(["--help"]).collect();
        run(&known, 0);
    }
    assert!(IMAGE.contains("\nUSER 65532:65532\n"), "not root");
}
