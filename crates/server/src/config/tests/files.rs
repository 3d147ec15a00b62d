//! What is said of files that are wrong, word for word.

use super::*;

/// What is wrong with a file of this text.
fn wrong(name: &str, text: &str) -> String {
    let home = Home::new(name);
    let path = home.write("t.toml", text);
    home.said(&find(Some(&path), &[], &[]).err().unwrap())
}

#[test]
fn a_slip_is_told_with_its_place_and_what_was_meant() {
    assert_eq!(
        wrong("slip", "# mine\n\n[server]\nmemroy = \"1GiB\"\n"),
        "t.toml:4:1: there is no key `memroy` in [server]: did you mean `memory`?\n  \
         4 | memroy …\n    | ^^^^^^"
    );
    assert_eq!(
        wrong("section", "[sever]\nlisten = \"127.0.0.1:1\"\n"),
        "t.toml:1:2: there is no section [sever]: did you mean [server]?\n  1 | [sever]\n    \
         |  ^^^^^"
    );
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = "listen = \"127.0.0.1:1\"\n\
                [server]\nlisten = 7600\nmemory = \"lots\"\nredis = \"redis://r\"\n\
                connections_max = 0\nplain_http = \"yes\"\n\
                [region]\nconsistency = \"exact\"\n[weather]\nrain = true\n";
    assert_eq!(
        wrong("all", text),
        "there are 8 mistakes in the configuration:\n\n\
         t.toml:1:1: `listen` has to stand below [server] or [admin]\n  \
         1 | listen = \"127.0.0.1:1\"\n    | ^^^^^^\n\n\
         t.toml:3:10: expected a string in quotes, not a whole number\n  \
         3 | listen = 7600\n    |          ^^^^\n\n\
         t.toml:4:10: expected a number of bytes, or one with KiB, MiB or GiB\n  \
         4 | memory = \"lots\"\n    |          ^^^^^^\n\n\
         t.toml:5:1: there is no key `redis` in [server]: it is one of [region]\n  \
         5 | redis …\n    | ^^^^^\n\n\
         t.toml:6:19: 0 is not in 1..=1000000\n  \
         6 | connections_max = 0\n    |                   ^\n\n\
         t.toml:7:14: expected true or false, not a string\n  \
         7 | plain_http = \"yes\"\n    |              ^^^^^\n\n\
         t.toml:9:15: expected one of: fast, bounded\n  \
         9 | consistency = \"exact\"\n    |               ^^^^^^^\n\n\
         t.toml:10:2: there is no section [weather]; there are [server], [admin], [settings], \
         [region], [globe], [log]\n  10 | …"
    );
}

#[test]
fn what_is_not_toml_and_what_is_said_twice_has_a_place() {
    let said = wrong("twice", "[server]\nlisten = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n");
    assert!(said.starts_with("t.toml:3:1: not TOML: duplicate key"), "{said}");
    let said = wrong("open", "[server]\nmemory = \"1GiB\nlisten = \"127.0.0.1:1\"\n");
    assert!(said.contains("t.toml:2:") && said.contains("not TOML"), "{said}");
    let home = Home::new("both");
    let secret = home.write("key", "x");
    let text = format!("[server]\nroot_key = 'x'\nroot_key_file = '{}'\n", secret.display());
    let said = wrong("both-ways", &text);
    assert!(said.starts_with("t.toml:3:1: `root_key` is said twice"), "{said}");
    for (text, expected) in [
        ("server = 1\n", "t.toml:1:1: `server` is a section: write [server]"),
        ("[[server]]\n", "t.toml:1:3: `server` is a section: write [server]"),
        ("[server.listen]\n", "t.toml:1:1: expected a string in quotes, not a table"),
        ("[server]\nlisten = []\n", "t.toml:2:10: expected a string in quotes, not a list"),
    ] {
        let said = wrong("shape", text);
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn what_belongs_together_is_checked_wherever_it_was_said() {
    let said = wrong("exposed", "[server]\nlisten = \"0.0.0.0:1\"\n");
    assert!(said.starts_with("t.toml:2:10: 0.0.0.0:1 can be reached by other machines"), "{said}");
    let said = wrong("half", "[server]\ntls_cert = \"/not/there\"\n");
    assert!(said.starts_with("t.toml:2:12: --tls-cert and --tls-key go together"), "{said}");
    let said = wrong("nameless", "[globe]\nurl = \"sqlite:/tmp/x.db\"\n");
    assert!(said.starts_with("t.toml:2:7: ") && said.contains("TIDEGATE_REGION"), "{said}");
    let home = Home::new("flag");
    let path = home.write("t.toml", "[server]\nplain_http = true\n");
    assert!(find(Some(&path), &[], &["--listen", "0.0.0.0:1"]).is_ok());
}

#[test]
fn a_secret_is_in_no_message() {
    let hex = "[region]\nfleet_secret = \"s3cret\"\n";
    for (name, text) in [
        ("key", "[server]\nroot_key = \"s3cret with space\"\n"),
        ("typo", "[server]\nroot_kye = \"s3cret\"\n"),
        ("open", "[server]\nroot_key = \"s3cret\n"),
        ("bare", "[server]\nroot_key = s3cret\n"),
        ("no-sign", "[server]\nroot_key \"s3cret\"\n"),
        ("dotted", "server.root_key = s3cret\n"),
        ("inline", "server = { root_key = s3cret }\n"),
        ("one-line", "[server]\nlisten = \"127.0.0.1:1\" root_key = \"s3cret\"\n"),
        ("type", "[server]\nroot_key = [\"s3cret\"]\n"),
        ("many-lines", "[server]\nroot_key = [\n  \"s3cret\",\n  s3cret\n]\n"),
        ("redis", "[region]\nredis = \"s3cret\"\n"),
        ("secret", hex),
        ("globe", "[globe]\nurl = \"mysql://u:s3cret@\"\n[region]\nname = \"eu\"\n"),
        ("settings", "[settings]\ndatabase = \"postgres://u:s3cret@h/d\"\n"),
        ("elsewhere", "[weather]\nroot_key = \"s3cret\"\n"),
        ("root", "root_key = \"s3cret\"\n"),
        ("next-line", "[server]\nroot_key =\n  s3cretc2VjcmV0=\n"),
        ("broken-off", "[server]\nroot_key = \"hunter\ns3cretvalue=\"\n"),
        ("three-quotes", "[server]\nroot_key = \"\"\"\ns3crethunter= \\q\n\"\"\"\n"),
        ("behind", "[server]\nlisten = \"127.0.0.1:1\" root_key \"s3cret\"\n"),
        ("behind-bare", "[server]\nconnections_max = 1 s3cret\n"),
        ("list", "[server]\nroot_key = [\n[s3cret]\n]\n"),
    ] {
        let said = wrong(name, text);
        assert!(said.starts_with("t.toml:") || said.starts_with("there are "), "{name}: {said}");
        assert!(!said.contains("s3cret"), "{name}: {said}");
    }
}

#[test]
fn what_stands_behind_a_value_is_left_out() {
    let said = wrong("behind-shown", "[server]\nmemory = 'lots' # of it\n");
    assert!(said.ends_with("\n  2 | memory = 'lots' …\n    |          ^^^^^^"), "{said}");
    let said = wrong("not-closed", "[server]\nmemory = \"1GiB\n");
    assert!(said.contains("\n  2 | memory …"), "{said}");
}

#[test]
fn files_that_a_load_lacks_are_known() {
    let home = Home::new("wanted");
    let text = "[server]\nroot_key_file = \"/not/there\"\ntls_cert = \"/nor/this\"\nmemroy = 1\n";
    let path = home.write("t.toml", text);
    let matches = serve_command().try_get_matches_from(["--tls-key", "/nor/that"]).unwrap();
    let mut wanted = Source::new(&matches, []).with_path(&path).wanted();
    wanted.sort();
    let mut expected = [path, "/not/there".into(), "/nor/this".into(), "/nor/that".into()];
    expected.sort();
    assert_eq!(wanted, expected);
}

#[test]
fn variables_that_say_nothing_are_mistakes() {
    let said = |name: &str, value: &str| find(None, &[(name, value)], &[]).err().unwrap();
    for (name, value, expected) in [
        ("TIDEGATE__SERVER__MEMROY", "1", "did you mean TIDEGATE__SERVER__MEMORY?"),
        ("TIDEGATE__SERVER__memory", "1", "did you mean TIDEGATE__SERVER__MEMORY?"),
        ("TIDEGATE__REGION__WEATHER", "1", "there is no key `weather` in [region]; there are name"),
        ("TIDEGATE__X", "1", "expected TIDEGATE__SECTION__KEY"),
        ("TIDEGATE__WEATHER__RAIN", "1", "there is no section [weather]; there are server, "),
        ("TIDEGATE__SERVER__MEMORY", "lots", "expected a number of bytes"),
        ("TIDEGATE__SERVER__PLAIN_HTTP", "yes", "expected true or false"),
        ("TIDEGATE__REGION__REDIS", "http://s3cret", "redis://"),
    ] {
        let said = said(name, value).to_string();
        assert!(said.starts_with(&format!("{name}: ")), "{said}");
        assert!(said.contains(expected) && !said.contains("s3cret"), "{said}");
    }
    let twice =
        [("TIDEGATE__SERVER__ROOT_KEY", "x"), ("TIDEGATE__SERVER__ROOT_KEY_FILE", "/dev/null")];
    assert!(find(None, &twice, &[]).err().unwrap().to_string().contains("said twice"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let home = Home::new("unreadable");
    let said = |path: &Path| find(Some(path), &[], &[]).err().unwrap().to_string();
    let missing = said(&home.0.join("missing.toml"));
    assert!(missing.contains("missing.toml (TIDEGATE_CONFIG or --config): No such"), "{missing}");
    assert!(said(&home.0).contains("no file"), "a directory");
    let path = home.0.join("bytes.toml");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(said(&path).contains("not UTF-8"));
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(said(&path).contains("more than 1 MiB"));
}
