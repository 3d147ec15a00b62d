use super::*;

fn args(root_key: &str) -> ServeArgs {
    ServeArgs {
        listen: "0.0.0.0:7600".parse().unwrap(),
        memory: 64 << 20,
        root_key: root_key.to_owned(),
        redis: None,
        fleet_secret: None,
    }
}

fn welcome(args: &ServeArgs, key_in_environment: bool) -> String {
    let region = args.redis.as_deref().map(|url| Region::parse(url, None).unwrap());
    let (address, region) = (args.listen, region.as_ref());
    Welcome { address, args, region, key_in_environment, subjects_max: 1 }.to_string()
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
