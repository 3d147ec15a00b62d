use super::*;

fn address(host: &str, port: u16) -> Address {
    Address { host: host.to_owned(), port }
}

#[test]
fn one_server_is_read() {
    let config = RedisConfig::parse("redis://ada:p%40ss:w@cache.example:6380/3").unwrap();
    assert_eq!(config.topology, Topology::Standalone(address("cache.example", 6380)));
    assert_eq!(config.login.user.as_deref(), Some("ada"));
    assert_eq!(config.login.password, Some(Password::new("p@ss:w")));
    assert_eq!((config.database, config.prefix.as_str(), config.tls), (3, "tg", None));
    let short = RedisConfig::parse("redis://:secret@[::1]").unwrap();
    assert_eq!(short.topology, Topology::Standalone(address("::1", 6379)));
    assert_eq!((short.login.user, short.database), (None, 0));
}

#[test]
fn several_servers_say_why() {
    let config = RedisConfig::parse("redis://a,b:1,c/?sentinel=main").unwrap();
    let nodes = vec![address("a", 26_379), address("b", 1), address("c", 26_379)];
    assert_eq!(config.topology, Topology::Sentinel { master: "main".to_owned(), nodes });
    let config = RedisConfig::parse("redis://a,b:1?cluster=true&prefix=x-1").unwrap();
    let nodes = vec![address("a", 6379), address("b", 1)];
    assert_eq!((config.topology, config.prefix.as_str()), (Topology::Cluster { nodes }, "x-1"));
}

#[test]
fn what_is_wrong_is_told() {
    for (url, error) in [
        ("http://a", ConfigError::Scheme),
        ("a:6379", ConfigError::Scheme),
        ("redis://", ConfigError::Address),
        ("redis://a:b", ConfigError::Address),
        ("redis://a:99999", ConfigError::Address),
        ("redis://[::1", ConfigError::Address),
        ("redis://a,b", ConfigError::Several),
        ("redis://a/x", ConfigError::Database),
        ("redis://a/1?cluster=true", ConfigError::Database),
        ("redis://a?cluster=no", ConfigError::Parameter),
        ("redis://a?cluster=true&sentinel=m", ConfigError::Parameter),
        ("redis://a?timeout=3", ConfigError::Parameter),
        ("redis://a?prefix=", ConfigError::Prefix),
        ("redis://a?prefix={0}", ConfigError::Prefix),
        ("redis://:%4@a", ConfigError::Percent),
    ] {
        assert_eq!(RedisConfig::parse(url), Err(error), "{url}");
    }
    let encrypted = RedisConfig::parse("rediss://a");
    assert_eq!(encrypted.is_ok(), cfg!(feature = "tls"));
}

#[test]
fn a_password_never_shows() {
    let config = RedisConfig::parse("redis://ada:hunter2@a").unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}
