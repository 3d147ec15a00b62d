use super::*;
use crate::cli::TransportArgs;

fn transport() -> TransportArgs {
    TransportArgs {
        connections_max: 100,
        connections_per_address_max: None,
        tls_cert: None,
        tls_key: None,
        plain_http: false,
        retire_for: Duration::ZERO,
    }
}

fn args(root_key: &str) -> ServeArgs {
    ServeArgs {
        listen: "0.0.0.0:7600".parse().unwrap(),
        memory: 64 << 20,
        root_key: root_key.to_owned(),
        redis: None,
        fleet_secret: None,
        globe: None,
        region: None,
        regions_max: 10,
        transport: transport(),
    }
}

fn welcome(args: &ServeArgs, key_in_environment: bool) -> String {
    let region = args.redis.as_deref().map(|url| Region::parse(url, None).unwrap());
    let (address, globe) = (args.listen, Globe::parse(args).unwrap());
    let shared = &Shared { region, globe };
    Welcome { address, args, shared, key_in_environment, subjects_max: 1 }.to_string()
}

#[test]
fn the_key_that_everyone_knows_is_not_exposed() {
    let error = check_key(&args(DEVELOPMENT_KEY)).unwrap_err();
    assert!(matches!(error, ServeError::DevelopmentKeyExposed(_)));
    assert!(error.to_string().contains("TIDEGATE_ROOT_KEY"));
    assert!(check_key(&args("another")).is_ok());
    for loopback in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
        let args = ServeArgs { listen: loopback.parse().unwrap(), ..args(DEVELOPMENT_KEY) };
        assert!(check_key(&args).is_ok(), "{loopback}");
    }
}

#[test]
fn keys_do_not_cross_a_network_in_clear_text_unless_that_is_wanted() {
    let error = wire::check(&args("k")).unwrap_err();
    assert!(matches!(error, ServeError::PlainHttpExposed(_)));
    for way_out in ["--plain-http", "--tls-cert", "--tls-key", "127.0.0.1"] {
        assert!(error.to_string().contains(way_out), "{error}");
    }
    let wanted = TransportArgs { plain_http: true, ..transport() };
    assert!(wire::check(&ServeArgs { transport: wanted, ..args("k") }).is_ok());
    let encrypted = TransportArgs { tls_cert: Some("c.pem".into()), ..transport() };
    assert!(wire::check(&ServeArgs { transport: encrypted, ..args("k") }).is_ok());
    for loopback in ["127.0.0.1:1", "[::1]:1"] {
        let args = ServeArgs { listen: loopback.parse().unwrap(), ..args("k") };
        assert!(wire::check(&args).is_ok(), "{loopback}");
    }
}

#[test]
fn the_welcome_says_https_where_it_is() {
    let transport = TransportArgs { tls_cert: Some("c.pem".into()), ..transport() };
    let said = welcome(&ServeArgs { transport, ..args("hush") }, true);
    assert!(said.contains(" https://127.0.0.1:7600/v2/") && !said.contains("http://"), "{said}");
}

#[test]
fn the_welcome_never_shows_a_secret() {
    let redis = Some("redis://me:hush@cache:6380".to_owned());
    let args = ServeArgs { redis, fleet_secret: Some("hush".to_owned()), ..args("hush") };
    let welcome = welcome(&args, true);
    assert!(welcome.contains("  region    redis at cache:6380\n"), "{welcome}");
    assert!(!welcome.contains("hush"), "{welcome}");
    assert!(welcome.contains("\"Authorization: Bearer $TIDEGATE_ROOT_KEY\""), "{welcome}");
    assert!(welcome.contains("http://127.0.0.1:7600/"), "{welcome}");
}

#[test]
fn the_welcome_names_the_region_and_the_database() {
    let (globe, region) = (Some("mysql://me:hush@db/limits".to_owned()), Some("eu".to_owned()));
    let alone = ServeArgs { globe, region, ..args("hush") };
    let said = welcome(&alone, true);
    assert!(said.contains("  region    eu, this process alone\n"), "{said}");
    let globe = "  globe     mysql database `limits` at db:3306, for up to 10 regions\n";
    assert!(said.contains(globe) && !said.contains("hush"), "{said}");
    let redis = Some("redis://cache".to_owned());
    let said = welcome(&ServeArgs { redis, ..alone }, true);
    assert!(said.contains("  region    eu, redis at cache:6379\n"), "{said}");
}

#[test]
fn a_region_without_a_name_is_a_mistake_of_the_caller() {
    let globe = Some("sqlite:limits.db".to_owned());
    let unnamed = Globe::parse(&ServeArgs { globe, ..args("k") }).unwrap_err();
    assert!(matches!(unnamed, StartError::NoName) && unnamed.is_usage());
    assert!(Globe::parse(&args("k")).unwrap().is_none());
}

#[test]
fn a_key_that_is_not_in_the_environment_is_put_there_first() {
    let export = "export TIDEGATE_ROOT_KEY=<your key>\n  curl ";
    assert!(welcome(&args("hush"), false).contains(export));
    assert!(!welcome(&args("hush"), true).contains("export"));
    assert!(!welcome(&args(DEVELOPMENT_KEY), false).contains("export"));
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
