use std::process::Command;

use serde_json::Value;

use super::{KEY, Server, data_dir, tidegate};

/// A database, and what it takes to use it.
pub(crate) struct Place {
    url: String,
}

impl Place {
    /// One that is ready.
    pub(crate) fn new(url: String) -> Self {
        let place = Self { url };
        place.run(&["migrate"], 0);
        place
    }

    /// A file that nobody else has.
    pub(crate) fn file() -> Self {
        let directory = data_dir();
        std::fs::create_dir_all(&directory).unwrap();
        Self::new(format!("sqlite:{}", directory.join("settings.db").display()))
    }

    /// The binary on this database.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = tidegate(args);
        command.env("TIDEGATE_DATABASE", &self.url);
        command
    }

    pub(crate) fn serve(&self) -> Server {
        Server::start_with(&mut self.command(&["serve", "--listen", "127.0.0.1:0"]), KEY)
    }

    /// What is said by a command that ends with `code`.
    pub(crate) fn run(&self, args: &[&str], code: i32) -> String {
        let (ended_with, said) = Server::run_to_end(&mut self.command(args));
        assert_eq!(ended_with, Some(code), "{args:?}: {said}");
        said
    }

    /// What is said in JSON by a command that succeeds.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let said = self.run(&[args, &["--output", "json"]].concat(), 0);
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
    }

    /// A new key, and its id.
    pub(crate) fn key(&self, args: &[&str]) -> (String, String) {
        let made = self.json(&[&["key", "create"], args].concat());
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        (text("key"), text("id"))
    }
}
