use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

fn parse(args: &[&str]) -> Result<ServeArgs, ErrorKind> {
    // The environment of the test run must not decide: a key is always given here.
    let all = ["tidegate", "serve", "--root-key", "k"].iter().chain(args);
    match Cli::try_parse_from(all).map_err(|error| error.kind())?.command {
        Command::Serve(args) => Ok(args),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn sizes_are_read_with_their_units() {
    for (text, bytes) in [
        ("256MiB", 256 << 20),
        ("1GiB", 1 << 30),
        ("2048kib", 2 << 20),
        ("1048576", 1 << 20),
        ("1048576 B", 1 << 20),
        ("1024GiB", 1 << 40),
    ] {
        assert_eq!(memory(text), Ok(bytes), "{text}");
    }
    for bad in ["", "MiB", "-1", "1.5GiB", "64MB", "1048575", "0", "1025GiB", "9999999999999GiB"] {
        assert!(memory(bad).is_err(), "{bad}");
    }
}

#[test]
fn bad_values_are_refused() {
    assert_eq!(parse(&["--listen", "[::1]:0"]).unwrap().listen.port(), 0);
    for bad in [
        ["--listen", "localhost"],
        ["--listen", "127.0.0.1"],
        ["--listen", "127.0.0.1:99999"],
        ["--memory", "lots"],
    ] {
        assert_eq!(parse(&bad).unwrap_err(), ErrorKind::ValueValidation, "{bad:?}");
    }
    assert_eq!(parse(&["--memroy", "1GiB"]).unwrap_err(), ErrorKind::UnknownArgument);
}

#[test]
fn a_consistency_is_one_of_two() {
    // Said, because the environment of the test run must not decide.
    for consistency in [Consistency::Fast, Consistency::Bounded] {
        let args = parse(&["--consistency", consistency.as_str()]).unwrap();
        assert_eq!(args.consistency, consistency);
    }
    assert_eq!(parse(&["--consistency", "exact"]).unwrap_err(), ErrorKind::InvalidValue);
}

#[test]
fn a_key_must_fit_into_a_header() {
    let with_key = |key: &str| ServeArgs { root_key: Some(key.to_owned()), ..parse(&[]).unwrap() };
    for good in ["aZ0_-.~!", &"k".repeat(256)] {
        assert_eq!(with_key(good).check_key(), Ok(()), "{good}");
    }
    for bad in ["", "a b", "é", "line\n", &"k".repeat(257)] {
        assert!(with_key(bad).check_key().is_err(), "{bad}");
    }
}

#[test]
fn a_secret_is_never_printed() {
    let args = ServeArgs {
        root_key: Some("hush".to_owned()),
        place: DatabaseArgs { database: Some("mysql://u:hush@db/d".to_owned()), data: None },
        redis: Some("redis://:hush@cache".to_owned()),
        fleet_secret: Some("hush".to_owned()),
        globe: Some("mysql://u:hush@db/d".to_owned()),
        ..parse(&[]).unwrap()
    };
    assert!(!format!("{args:?}").contains("hush"));
}

#[test]
fn a_fleet_secret_has_64_hexadecimal_digits() {
    let with = |secret: &str| {
        let args = ServeArgs { fleet_secret: Some(secret.to_owned()), ..parse(&[]).unwrap() };
        args.fleet_secret_bytes()
    };
    let mut expected = [0x0f; 32];
    expected[0] = 0xA7;
    assert_eq!(with(&format!("a7{}", "0F".repeat(31))), Ok(Some(expected)));
    for bad in ["", "a7", &"0".repeat(63), &"0".repeat(65), &"g0".repeat(32), &"é".repeat(32)] {
        assert!(with(bad).is_err(), "{bad}");
    }
    let none = ServeArgs { fleet_secret: None, ..parse(&[]).unwrap() };
    assert_eq!(none.fleet_secret_bytes(), Ok(None));
}

#[test]
fn durations_are_read_with_their_units() {
    for (text, ms) in [("500ms", 500), ("60s", 60_000), ("5m", 300_000), ("1h", 3_600_000)] {
        assert_eq!(globe::duration_ms(text), Ok(ms), "{text}");
    }
    assert_eq!(globe::duration_ms("30d"), Ok(30 * 86_400_000));
    for bad in ["", "60", "s", "1.5h", "-1s", "1 s", "99999999999999999999d"] {
        assert!(globe::duration_ms(bad).is_err(), "{bad}");
    }
}

#[test]
fn regions_are_counted_from_one() {
    assert_eq!(parse(&[]).unwrap().regions_max, 10);
    for bad in ["0", "1001", "many"] {
        assert_eq!(parse(&["--regions-max", bad]).unwrap_err(), ErrorKind::ValueValidation);
    }
}

#[test]
fn one_address_has_half_of_the_connections_unless_told_otherwise() {
    for (args, possible, expected) in [
        (&[][..], 9_999, (4_096, 2_048)),
        (&[], 896, (896, 448)),
        (&["--connections-max", "7"], 9_999, (7, 4)),
        (&["--connections-max", "1"], 9_999, (1, 1)),
        (&["--connections-per-address-max", "9"], 9_999, (4_096, 9)),
    ] {
        let limits = parse(args).unwrap().transport.limits(possible);
        assert_eq!((limits.connections_max, limits.per_address_max), expected, "{args:?}");
    }
    for bad in ["0", "1000001", "many"] {
        for option in ["--connections-max", "--connections-per-address-max"] {
            assert_eq!(parse(&[option, bad]).unwrap_err(), ErrorKind::ValueValidation, "{bad}");
        }
    }
}

#[test]
fn a_certificate_needs_its_key_and_tls_is_not_plain() {
    let checked = |args: &[&str]| {
        let args = parse(args).unwrap();
        crate::serve::wire::check_tls(&args.transport).map_err(|why| why.to_string())
    };
    assert!(checked(&["--tls-cert", "c"]).unwrap_err().contains("--tls-key is missing"));
    assert!(checked(&["--tls-key", "k"]).unwrap_err().contains("--tls-cert is missing"));
    assert!(checked(&["--tls-key", "k", "--tls-cert", "c"]).is_ok());
    let both = ["--tls-key", "k", "--tls-cert", "c", "--plain-http"];
    assert!(checked(&both).unwrap_err().contains("--plain-http"));
    for callers in [&["--tls-key", "k", "--tls-cert", "c"][..], &["--plain-http"], &[]] {
        let said = [callers, &["--admin-listen", "0.0.0.0:1", "--admin-exposed"]].concat();
        assert!(parse(&said).unwrap().transport.admin_exposed, "{callers:?}");
    }
}

#[test]
fn retiring_takes_no_time_unless_told_otherwise() {
    let retire_for = |args: &[&str]| parse(args).map(|args| args.transport.retire_for.as_millis());
    assert_eq!(retire_for(&[]), Ok(0));
    assert_eq!(retire_for(&["--retire-for", "1500ms"]), Ok(1_500));
    for bad in ["5", "2h", "soon"] {
        assert_eq!(retire_for(&["--retire-for", bad]), Err(ErrorKind::ValueValidation), "{bad}");
    }
}
