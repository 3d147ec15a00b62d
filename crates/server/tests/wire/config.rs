//! The configuration file: at the start, checked before, and read again.

use std::path::{Path, PathBuf};

use crate::metrics::{admin_of, scrape, value};
use crate::support::{DEADLINE, KEY, LIMIT, Server, ask, data_dir, eventually, tidegate};

/// A directory with a file in it.
struct Home(PathBuf);

impl Home {
    fn new(text: &str) -> Self {
        let home = Self(data_dir());
        std::fs::create_dir_all(&home.0).unwrap();
        home.write(text);
        home
    }

    fn path(&self) -> String {
        self.0.join("tidegate.toml").to_str().unwrap().to_owned()
    }

    fn write(&self, text: &str) {
        std::fs::write(self.path(), text).unwrap();
    }

    /// Puts another file in its place, in one step.
    fn replace(&self, text: &str) {
        let new = self.0.join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path()).unwrap();
    }

    fn serve(&self) -> Server {
        serve(&self.path(), &[])
    }
}

fn serve(path: &str, variables: &[(&str, &str)]) -> Server {
    let mut command = tidegate(&["serve", "--config", path]);
    command.envs(variables.iter().copied());
    Server::start_with(&mut command, KEY)
}

/// A file with listeners that take any port, and more.
fn text(server: &str, region: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n{server}\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [region]\n{region}\n"
    )
}

/// Waits until a metric has this value.
fn becomes(server: &Server, series: &str, expected: f64) {
    let admin = admin_of(server);
    eventually(DEADLINE, || (value(&scrape(admin), series) == expected).then_some(()));
}

const SUCCESS: &str = "tidegate_config_reload_success";
const SUCCEEDED: &str = r#"tidegate_config_reloads_total{result="success"}"#;
const FAILED: &str = r#"tidegate_config_reloads_total{result="failure"}"#;
const PENDING: &str = "tidegate_config_pending_restart";
const CONNECTIONS_MAX: &str = "tidegate_connections_max";

#[test]
fn the_nearest_word_decides_for_a_server_too() {
    let home = Home::new(&text("connections_max = 10\nmemory = 1048576", "consistency = \"fast\""));
    let serve = |variables: &[(&str, &str)]| {
        let server = serve(&home.path(), variables);
        value(&scrape(admin_of(&server)), CONNECTIONS_MAX)
    };
    assert_eq!(serve(&[]), 10.0);
    assert_eq!(serve(&[("TIDEGATE__SERVER__CONNECTIONS_MAX", "20")]), 20.0);

    // The variable of a flag is nearer than the one that overlays.
    let mut command = tidegate(&["check-config", &home.path(), "--", "--memory", "2MiB"]);
    command.env("TIDEGATE_CONSISTENCY", "bounded").env("TIDEGATE__REGION__CONSISTENCY", "fast");
    let (code, said) = Server::run_to_end(&mut command);
    assert_eq!(code, Some(0), "{said}");
    for (key, shown) in [
        ("memory", "2MiB --memory"),
        ("consistency", "bounded TIDEGATE_CONSISTENCY"),
        ("connections_max", "10 line 3"),
        ("root_key", "(set) TIDEGATE_ROOT_KEY"),
        ("regions_max", "10 default"),
    ] {
        let line = said.lines().find(|line| line.trim().starts_with(key)).unwrap();
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        assert_eq!(words.join(" "), shown, "{said}");
    }
    assert!(!said.contains(KEY), "{said}");
}

#[test]
fn a_mistake_ends_the_start_and_the_check_with_its_place() {
    let home = Home::new("[server]\nmemroy = \"1GiB\"\n[region]\nredis = \"s3cret\"\n");
    for args in [&["serve", "--config", &home.path()][..], &["check-config", &home.path()]] {
        let (code, said) = Server::run_to_end(&mut tidegate(args));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.starts_with("error: ") && said.contains("tidegate.toml:2:1: "), "{said}");
        assert!(said.contains("did you mean `memory`?") && !said.contains("s3cret"), "{said}");
    }
    home.write("[region]\nredis = \"s3cret\"\n");
    let args = ["check-config", &home.path(), "--output", "json"];
    let (code, said) = Server::run_to_end(&mut tidegate(&args));
    assert_eq!(code, Some(2), "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["mistakes"][0]["line"], 2);
    assert!(!said.to_string().contains("s3cret"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_hangup_changes_what_can_be_changed_and_counts_stay() {
    let home = Home::new(&text("connections_max = 10", ""));
    let server = home.serve();
    let mut client = server.client();
    assert_eq!(client.post(LIMIT, &ask("a", 9, 4)).data()["remaining"], 5);

    home.write(&text(
        "connections_max = 20\nconnections_per_address_max = 3\nmemory = \"1GiB\"",
        "consistency = \"fast\"",
    ));
    server.signal("HUP");
    let said = server.wait_for_line("configuration read again (SIGHUP)");
    for part in [
        "server.connections_max: 10 -> 20",
        "server.connections_per_address_max: (not set) -> 3",
        "region.consistency: bounded -> fast; needs a restart: server.memory: 256MiB -> 1GiB",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let metrics = scrape(admin_of(&server));
    assert_eq!(value(&metrics, CONNECTIONS_MAX), 20.0);
    assert_eq!(value(&metrics, "tidegate_connections_per_address_max"), 3.0);
    assert_eq!((value(&metrics, PENDING), value(&metrics, SUCCESS)), (1.0, 1.0));
    // The same connection, and the same counts.
    assert_eq!(client.post(LIMIT, &ask("a", 9, 4)).data()["remaining"], 1);
    let explain = client.post("/v2/tidegate.explain", &ask("a", 9, 1));
    assert_eq!(explain.data()["namespace"]["consistency"], "fast", "{:?}", explain.data());
    // The cap of one address holds from now on.
    let mut others = [server.client(), server.client()];
    for other in &mut others {
        assert_eq!(other.ask("GET", "/livez").status, 200);
    }
    assert!(server.client().is_closed(), "a fourth is one too many");
    assert_eq!(value(&scrape(admin_of(&server)), "tidegate_connections"), 3.0);

    server.signal("HUP");
    eventually(DEADLINE, || {
        let said = server.said();
        let again = said.iter().filter(|line| line.contains("read again (SIGHUP)"));
        again.clone().any(|line| line.contains("nothing changed; needs a restart")).then_some(())
    });
}

#[test]
fn a_file_that_is_replaced_is_read_again() {
    let home = Home::new(&text("connections_max = 10", ""));
    let server = home.serve();
    home.replace(&text("connections_max = 30", ""));
    becomes(&server, CONNECTIONS_MAX, 30.0);
    server.wait_for_line("(a file changed): server.connections_max: 10 -> 30");
    assert_eq!(value(&scrape(admin_of(&server)), SUCCEEDED), 1.0);
}

#[cfg(unix)]
#[test]
fn a_mounted_directory_that_is_swapped_is_read_again() {
    let home = data_dir();
    // As a platform mounts it: the file is a link into a link to a directory.
    let version = |name: &str, max: u32| {
        let directory = home.join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let text = text(&format!("connections_max = {max}"), "");
        std::fs::write(directory.join("tidegate.toml"), text).unwrap();
    };
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(Path::new(to), home.join(name)).unwrap();
    };
    version("..1", 10);
    link("..1", "..data");
    link("..data/tidegate.toml", "tidegate.toml");
    let server = serve(home.join("tidegate.toml").to_str().unwrap(), &[]);
    version("..2", 40);
    link("..2", "..data_tmp");
    std::fs::rename(home.join("..data_tmp"), home.join("..data")).unwrap();
    std::fs::remove_dir_all(home.join("..1")).unwrap();
    becomes(&server, CONNECTIONS_MAX, 40.0);
}

#[test]
fn a_broken_file_changes_nothing_and_a_whole_one_heals_it() {
    let home = Home::new(&text("connections_max = 10", ""));
    let server = home.serve();
    home.replace(&text("connections_max = 50\nmemroy = 1", ""));
    becomes(&server, SUCCESS, 0.0);
    server.wait_for_warning("tidegate.toml:4:1: there is no key `memroy`");
    let metrics = scrape(admin_of(&server));
    assert_eq!((value(&metrics, CONNECTIONS_MAX), value(&metrics, FAILED)), (10.0, 1.0));
    std::fs::remove_file(home.path()).unwrap();
    server.wait_for_warning("cannot read");
    home.replace(&text("connections_max = 60", ""));
    becomes(&server, SUCCESS, 1.0);
    becomes(&server, CONNECTIONS_MAX, 60.0);
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
}

#[cfg(unix)]
#[test]
fn a_hangup_while_a_server_begins_is_heard_when_it_runs() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mysql://u:p@{}/d", silent.local_addr().unwrap());
    let home = Home::new(&text("", ""));
    let args = ["serve", "--config", &home.path(), "--database", &url];
    let server = Server::begin(&mut tidegate(&args), KEY, None);
    // It begins, and waits for a database that says nothing.
    silent.set_nonblocking(true).unwrap();
    let _asked = eventually(DEADLINE, || silent.accept().ok());
    server.signal("HUP");
    server.wait_for_line("listens on http");
    server.wait_for_line("configuration read again (SIGHUP): nothing changed");
}

#[test]
fn a_file_that_a_refused_configuration_lacked_heals_it_when_it_comes() {
    let home = Home::new(&text("", ""));
    let server = home.serve();
    let late = home.0.join("late");
    home.replace(&text(&format!("root_key_file = {:?}", late.to_str().unwrap()), ""));
    becomes(&server, SUCCESS, 0.0);
    std::fs::write(&late, "tidegate_other\n").unwrap();
    becomes(&server, SUCCESS, 1.0);
}

#[test]
fn programs_are_told_of_the_reload_that_makes_the_log_quiet() {
    let home = Home::new(&text("", ""));
    let mut command = tidegate(&["serve", "--config", &home.path()]);
    let server = Server::start_for_programs(&mut command, KEY);
    home.replace(&(text("", "") + "[log]\nlevel = \"error\"\n"));
    let said = server.wait_for_warning("\"event\":\"config_reloaded\"");
    assert!(said.contains("log.level: info -> error") && said.contains("\"changed\":1"), "{said}");
}

#[test]
fn a_check_says_what_is_wrong_with_variables_and_flags() {
    let check = |args: &[&str], outage: &std::ffi::OsStr| {
        let mut command = tidegate(&[&["check-config"], args].concat());
        let (code, said) = Server::run_to_end(command.env("TIDEGATE_OUTAGE", outage));
        assert_eq!(code, Some(2), "{said}");
        said
    };
    let said = check(&[], "foo".as_ref());
    assert!(said.starts_with("error: invalid value 'foo' for '--outage"), "{said}");
    let said = check(&["--", "--help"], "local".as_ref());
    assert!(said.starts_with("error: what stands behind `--` are flags of"), "{said}");
    #[cfg(unix)]
    {
        let bytes = std::os::unix::ffi::OsStrExt::from_bytes(&[0xff]);
        assert_eq!(check(&[], bytes), "error: not UTF-8: TIDEGATE_OUTAGE\n");
    }
}

#[cfg(unix)]
#[test]
fn a_server_without_a_file_outlives_a_hangup() {
    let server = Server::start();
    server.signal("HUP");
    server.wait_for_line("configuration read again (SIGHUP): nothing changed");
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
}
