use super::welcome::{Welcome, grouped, reachable};
use super::*;
use crate::cli::{DatabaseArgs, LogArgs, LogLevel, TransportArgs};
use crate::globe::StartError;

fn transport() -> TransportArgs {
    TransportArgs {
        connections_max: 100,
        connections_per_address_max: None,
        tls_cert: None,
        tls_key: None,
        plain_http: false,
        admin_listen: None,
        admin_exposed: false,
        metrics_workspaces: None,
        retire_for: Duration::ZERO,
    }
}

fn args() -> ServeArgs {
    ServeArgs {
        config: None,
        listen: "0.0.0.0:7600".parse().unwrap(),
        memory: 64 << 20,
        root_key: Some("hush".to_owned()),
        place: DatabaseArgs { database: None, data: None },
        redis: None,
        fleet_secret: None,
        globe: None,
        region: None,
        regions_max: 10,
        consistency: tidegate::Consistency::Fast,
        outage: tidegate::Outage::Local,
        transport: transport(),
        log: LogArgs { log_format: None, log_level: LogLevel::Info },
    }
}

fn welcome_with(args: &ServeArgs, key: &KeyNews) -> String {
    let region = args.redis.as_deref().map(|url| Region::parse(url, None).unwrap());
    let shared = Shared { region, globe: Globe::parse(args).unwrap() };
    let (address, memory) = (args.listen, args.memory);
    let encrypted = args.transport.tls_cert.is_some();
    Welcome {
        address,
        encrypted,
        admin: args.transport.admin_listen,
        memory,
        subjects_max: 1,
        settings: "a file",
        database: &Database::parse("sqlite:a.db").unwrap(),
        shared: &shared,
        key,
    }
    .to_string()
}

fn welcome(args: &ServeArgs) -> String {
    welcome_with(args, &KeyNews::Given { in_environment: true })
}

#[test]
fn keys_do_not_cross_a_network_in_clear_text_unless_that_is_wanted() {
    let error = wire::check(&args()).unwrap_err();
    assert!(matches!(error, ServeError::PlainHttpExposed(_)));
    for way_out in ["--plain-http", "--tls-cert", "--tls-key", "127.0.0.1"] {
        assert!(error.to_string().contains(way_out), "{error}");
    }
    let wanted = TransportArgs { plain_http: true, ..transport() };
    assert!(wire::check(&ServeArgs { transport: wanted, ..args() }).is_ok());
    let encrypted = TransportArgs {
        tls_cert: Some("c.pem".into()),
        tls_key: Some("k.pem".into()),
        ..transport()
    };
    assert!(wire::check(&ServeArgs { transport: encrypted, ..args() }).is_ok());
    for loopback in ["127.0.0.1:1", "[::1]:1"] {
        let args = ServeArgs { listen: loopback.parse().unwrap(), ..args() };
        assert!(wire::check(&args).is_ok(), "{loopback}");
    }
}

#[test]
fn what_operators_see_is_not_shown_to_a_network_unless_that_is_wanted() {
    let listen = "127.0.0.1:1".parse().unwrap();
    let admin = |address: &str, admin_exposed| {
        let admin_listen = Some(address.parse().unwrap());
        let transport = TransportArgs { admin_exposed, admin_listen, ..transport() };
        ServeArgs { listen, transport, ..args() }
    };
    let error = wire::check(&admin("0.0.0.0:9300", false)).unwrap_err();
    assert!(matches!(error, ServeError::AdminExposed(_)), "{error}");
    for way_out in ["--admin-exposed", "127.0.0.1"] {
        assert!(error.to_string().contains(way_out), "{error}");
    }
    assert!(wire::check(&admin("0.0.0.0:9300", true)).is_ok());
    assert!(wire::check(&admin("[::1]:9300", false)).is_ok());
    let said = welcome(&admin("127.0.0.1:9300", false));
    assert!(said.contains("  metrics   http://127.0.0.1:9300/metrics\n"), "{said}");
}

#[test]
fn each_listener_is_opened_to_a_network_by_words_of_its_own() {
    let check = |transport| wire::check(&ServeArgs { transport, ..args() });
    let admin_listen = Some("0.0.0.0:9300".parse().unwrap());
    let plain = TransportArgs { plain_http: true, admin_listen, ..transport() };
    let (tls_cert, tls_key) = (Some("c.pem".into()), Some("k.pem".into()));
    let encrypted = TransportArgs { tls_cert, tls_key, admin_listen, ..transport() };
    for callers in [plain, encrypted] {
        let error = check(callers.clone()).unwrap_err();
        assert!(matches!(error, ServeError::AdminExposed(_)), "{error}");
        assert!(check(TransportArgs { admin_exposed: true, ..callers }).is_ok());
    }
    let only_admin = TransportArgs { admin_exposed: true, admin_listen, ..transport() };
    let error = check(only_admin).unwrap_err();
    assert!(matches!(error, ServeError::PlainHttpExposed(_)), "{error}");
}

#[test]
fn the_welcome_says_https_where_it_is() {
    let transport = TransportArgs {
        tls_cert: Some("c.pem".into()),
        tls_key: Some("k.pem".into()),
        ..transport()
    };
    let said = welcome(&ServeArgs { transport, ..args() });
    assert!(said.contains(" https://127.0.0.1:7600/v2/") && !said.contains("http://"), "{said}");
}

#[test]
fn the_welcome_never_shows_a_secret() {
    let redis = Some("redis://me:hush@cache:6380".to_owned());
    let args = ServeArgs { redis, fleet_secret: Some("hush".to_owned()), ..args() };
    let welcome = welcome(&args);
    assert!(welcome.contains("  region    redis at cache:6380\n"), "{welcome}");
    assert!(!welcome.contains("hush"), "{welcome}");
    assert!(welcome.contains("\"Authorization: Bearer $TIDEGATE_ROOT_KEY\""), "{welcome}");
    assert!(welcome.contains("http://127.0.0.1:7600/"), "{welcome}");
}

#[test]
fn the_welcome_names_the_region_and_the_database() {
    let (globe, region) = (Some("mysql://me:hush@db/limits".to_owned()), Some("eu".to_owned()));
    let alone = ServeArgs { globe, region, ..args() };
    let said = welcome(&alone);
    assert!(said.contains("  region    eu, this process alone\n"), "{said}");
    let globe = "  globe     mysql database `limits` at db:3306, for up to 10 regions\n";
    assert!(said.contains(globe) && !said.contains("hush"), "{said}");
    let redis = Some("redis://cache".to_owned());
    let said = welcome(&ServeArgs { redis, ..alone });
    assert!(said.contains("  region    eu, redis at cache:6379\n"), "{said}");
}

#[test]
fn a_region_without_a_name_is_a_mistake_of_the_caller() {
    let globe = Some("sqlite:limits.db".to_owned());
    let unnamed = Globe::parse(&ServeArgs { globe, ..args() }).unwrap_err();
    assert!(matches!(unnamed, StartError::NoName) && unnamed.is_usage());
    assert!(Globe::parse(&args()).unwrap().is_none());
}

#[test]
fn a_key_that_is_not_in_the_environment_is_put_there_first() {
    let export = "export TIDEGATE_ROOT_KEY=<your key>\n  curl ";
    let said = |key| welcome_with(&args(), &key);
    assert!(said(KeyNews::Given { in_environment: false }).contains(export));
    assert!(said(KeyNews::Known).contains(export));
    assert!(!said(KeyNews::Given { in_environment: true }).contains("export"));
    let made = said(KeyNews::Made("tidegate_x".to_owned()));
    assert!(!made.contains("export") && made.contains("'Authorization: Bearer tidegate_x'"));
}

#[test]
fn an_unspecified_address_is_shown_as_one_that_can_be_called() {
    for (address, shown) in [
        ("0.0.0.0:1", "127.0.0.1:1"),
        ("[::]:1", "[::1]:1"),
        ("10.0.0.7:1", "10.0.0.7:1"),
        ("[::1]:1", "[::1]:1"),
    ] {
        assert_eq!(reachable(address.parse().unwrap()).to_string(), shown);
    }
}

#[test]
fn digits_are_grouped_from_the_right() {
    for (number, text) in
        [(0, "0"), (999, "999"), (1_000, "1,000"), (123_456, "123,456"), (1_234_567, "1,234,567")]
    {
        assert_eq!(grouped(number), text);
    }
}
