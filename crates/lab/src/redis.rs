//! One private Redis server.

use crate::place::{Directory, free_port};
use crate::process::Process;
use crate::resp::{self, Value};
use crate::{Certificate, Error, Result};

/// Names the program when it is not `redis-server`: `valkey-server`, or a path.
const PROGRAM: &str = "TIDEGATE_LAB_REDIS";
/// A port can be taken between our look and the server's; then another one is tried.
pub(crate) const STARTS: u32 = 5;

/// What a server is told at its start, beside what every private server is told.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    program: Option<String>,
    settings: Vec<(String, String)>,
    acl: Option<String>,
    certificate: Option<Certificate>,
}

impl RedisOptions {
    /// Nothing special.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another program: `valkey-server`, or a path. Without it, the environment variable
    /// `TIDEGATE_LAB_REDIS`, and without that `redis-server`.
    #[must_use]
    pub fn program(mut self, program: &str) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// A line of the configuration, such as `maxmemory-policy` `allkeys-lru`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The users, as lines of an ACL file: `user name on >password ~* +@all`.
    #[must_use]
    pub fn acl(mut self, lines: &str) -> Self {
        self.acl = Some(lines.to_owned());
        self
    }

    /// Also listens for TLS, on [`RedisServer::tls_port`].
    #[must_use]
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.certificate = Some(certificate.clone());
        self
    }

    pub(crate) fn program_name(&self) -> String {
        let named = self.program.clone().or_else(|| std::env::var(PROGRAM).ok());
        named.unwrap_or_else(|| "redis-server".to_owned())
    }

    /// The command line.
    fn args(&self, port: u16, tls_port: Option<u16>, home: &Directory) -> Result<Vec<String>> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: &str| pairs.push((name.to_owned(), value.to_owned()));
        add("port", &port.to_string());
        add("bind", "127.0.0.1");
        add("dir", &home.path().display().to_string());
        add("logfile", &home.path().join("log").display().to_string());
        add("save", "");
        add("appendonly", "no");
        add("daemonize", "no");
        if let Some(lines) = &self.acl {
            add("aclfile", &home.write("users.acl", &format!("{}\n", lines.trim()))?);
        }
        if let (Some(certificate), Some(tls_port)) = (&self.certificate, tls_port) {
            add("tls-port", &tls_port.to_string());
            add("tls-cert-file", &home.write("server.crt", certificate.pem())?);
            add("tls-key-file", &home.write("server.key", certificate.key_pem())?);
            add("tls-auth-clients", "no");
        }
        pairs.extend(self.settings.iter().cloned());
        Ok(pairs.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect())
    }
}

/// A private server. Ends when dropped.
#[derive(Debug)]
pub struct RedisServer {
    // Declared first: the process must be gone before its directory is.
    process: Process,
    port: u16,
    tls_port: Option<u16>,
    _home: Directory,
}

impl RedisServer {
    /// A server with nothing special, ready to answer.
    ///
    /// # Errors
    /// When the program is missing or the server does not get ready.
    pub fn start() -> Result<Self> {
        Self::start_with(&RedisOptions::new())
    }

    /// A server with options, ready to answer.
    ///
    /// # Errors
    /// As [`RedisServer::start`].
    pub fn start_with(options: &RedisOptions) -> Result<Self> {
        let mut last = Error::new("never tried");
        for _ in 0..STARTS {
            let (home, port) = (Directory::new()?, free_port()?);
            let tls_port = options.certificate.as_ref().map(|_| free_port()).transpose()?;
            let args = options.args(port, tls_port, &home)?;
            let process = Process::start(&options.program_name(), args)?;
            let mut server = Self { process, port, tls_port, _home: home };
            match server.wait() {
                Ok(()) => return Ok(server),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its port for TLS, if it was given a certificate.
    #[must_use]
    pub const fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    /// Its address without a scheme.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Sends one command over a connection of its own, as `redis-cli` does. A refused command is
    /// a [`Value::Error`].
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn command(&self, words: &[&str]) -> Result<Value> {
        resp::ask(self.port, words)
    }

    /// The same as a user who has to log in.
    ///
    /// # Errors
    /// When the server does not answer, or does not let the user in.
    pub fn command_as(&self, user: &str, password: &str, words: &[&str]) -> Result<Value> {
        let answers = resp::ask_all(self.port, &[&["AUTH", user, password], words])?;
        match <[Value; 2]>::try_from(answers) {
            Ok([Value::Error(why), _]) => Err(Error::new(why)),
            Ok([_, answer]) => Ok(answer),
            Err(_) => Err(Error::new("there was no answer")),
        }
    }

    /// One field of `INFO`.
    ///
    /// # Errors
    /// When the server does not answer or has no such field.
    pub fn info(&self, section: &str, field: &str) -> Result<String> {
        let text = self.command(&["INFO", section])?.text();
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.map(str::to_owned).ok_or_else(|| Error::new(format!("INFO has no {field}")))
    }

    /// Ends it with SIGTERM and waits until it has ended.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }

    /// Ends it with SIGKILL.
    pub fn kill_9(&mut self) {
        self.process.kill();
    }

    /// Stops it in its tracks with SIGSTOP: connections stay open and nothing is answered.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    /// Lets it go on after [`RedisServer::pause`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Starts it again on the same port, empty; ends it first if it runs.
    ///
    /// # Errors
    /// When it does not get ready.
    pub fn restart(&mut self) -> Result<()> {
        self.process.start_again()?;
        self.wait()
    }

    /// Until it answers.
    fn wait(&mut self) -> Result<()> {
        if self.process.answers(self.port)? {
            return Ok(());
        }
        Err(Error::new(format!("the server on port {} ended at its start", self.port)))
    }
}
