use std::fs;

use super::*;

/// A directory of its own that goes with the test.
struct Files(std::path::PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-tls-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> std::path::PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_pair_is_taken_and_what_is_wrong_with_one_is_said() {
    let files = Files::new("pair");
    let one = tidegate_lab::Certificate::new().unwrap();
    let other = tidegate_lab::Certificate::new().unwrap();
    let certificate = files.write("certificate", one.pem());
    let key = files.write("key", one.key_pem());
    assert!(Tls::new(Pair::load(&certificate, &key).unwrap()).is_ok());

    let missing = files.0.join("missing");
    let secret = "-----BEGIN PRIVATE KEY-----\ns3cret!\n-----END PRIVATE KEY-----\n";
    let (empty, broken) = (files.write("empty", ""), files.write("broken", secret));
    let other_key = files.write("other", other.key_pem());
    for (certificate, key, expected) in [
        (&missing, &key, "--tls-cert"),
        (&certificate, &missing, "--tls-key"),
        (&key, &key, "no certificate"),
        (&certificate, &certificate, "no private key"),
        (&empty, &key, "no certificate"),
        (&certificate, &empty, "no private key"),
        (&certificate, &broken, "not PEM"),
        (&certificate, &other_key, "together"),
    ] {
        let said = Pair::load(certificate, key).unwrap_err().to_string();
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}

#[test]
fn it_is_known_when_a_certificate_ends_and_whether_it_is_another() {
    use tidegate::Clock;

    let files = Files::new("ends");
    let load = |name: &str| {
        let made = tidegate_lab::Certificate::new().unwrap();
        let certificate = files.write(&format!("{name}.cert"), made.pem());
        let key = files.write(&format!("{name}.key"), made.key_pem());
        move || Pair::load(&certificate, &key).unwrap()
    };
    let (one, other) = (load("one"), load("other"));
    let now_s = tidegate::SystemClock::new().now().unix_ms() / 1_000;
    let left_s = one().expires_unix_s().unwrap() - now_s;
    // They are made for two days.
    assert!((2 * 86_400 - 600..=2 * 86_400).contains(&left_s), "{left_s}");

    let tls = Tls::new(one()).unwrap();
    assert!(!tls.take(one()), "the same was read again");
    assert!(tls.take(other()) && tls.take(one()));
}
