use super::*;

#[test]
fn an_address_is_read() {
    let config = MysqlConfig::parse("mysql://ada:p%40s/s:w@[::1]/limits").unwrap();
    assert_eq!((config.address.host.as_str(), config.address.port), ("::1", 3306));
    assert_eq!(config.password, Some(Password::new("p@s/s:w")));
    assert_eq!((config.user.as_str(), config.database.as_str()), ("ada", "limits"));
    assert_eq!((config.socket, config.tls), (None, None));
    let near = MysqlConfig::parse("mysql://ada@localhost/limits?socket=/run/my.sock").unwrap();
    assert_eq!(near.socket, Some(PathBuf::from("/run/my.sock")));
    assert_eq!(near.password, None);
}

#[test]
fn what_is_wrong_is_told() {
    for (url, error) in [
        ("mariadb://a@b/c", MysqlConfigError::Scheme),
        ("a@b/c", MysqlConfigError::Scheme),
        ("mysql://b/c", MysqlConfigError::User),
        ("mysql://:pw@b/c", MysqlConfigError::User),
        ("mysql://a@/c", MysqlConfigError::Address),
        ("mysql://a@b:99999/c", MysqlConfigError::Address),
        ("mysql://a@b", MysqlConfigError::Database),
        ("mysql://a@b/", MysqlConfigError::Database),
        ("mysql://a@b/c/d", MysqlConfigError::Database),
        ("mysql://a@b/c?pool=3", MysqlConfigError::Parameter),
        ("mysql://a@b/c?socket=run", MysqlConfigError::Parameter),
        ("mysql://a@b/c?tls=false", MysqlConfigError::Parameter),
        ("mysql://a@b/c?ca=/ca.pem", MysqlConfigError::Parameter),
        ("mysql://a@b/c?tls=true&ca=ca.pem", MysqlConfigError::Parameter),
        ("mysql://a@b/c?socket=/a&socket=/b", MysqlConfigError::Parameter),
        ("mysql://a:%4@b/c", MysqlConfigError::Percent),
    ] {
        assert_eq!(MysqlConfig::parse(url), Err(error), "{url}");
    }
    let encrypted = MysqlConfig::parse("mysql://a@b/c?tls=true&socket=/a&ca=/ca.pem");
    assert_eq!(encrypted.is_ok(), cfg!(feature = "tls"));
}

#[test]
fn a_password_never_shows() {
    let config = MysqlConfig::parse("mysql://ada:hunter2@a/b").unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    let wrong = MysqlConfig::parse("mysql://ada:hunter2@a").unwrap_err();
    assert!(!format!("{wrong} {wrong:?}").contains("hunter2"));
}
