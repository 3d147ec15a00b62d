//! One private MariaDB server, or a MySQL one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::place::{Directory, free_port};
use crate::process::Process;
use crate::redis::STARTS;
use crate::wait::{DEADLINE, eventually};
use crate::{Certificate, Error, Result};

mod template;

/// Names the program when it is not `mariadbd`: the `mysqld` of a MySQL, or a path.
const PROGRAM: &str = "TIDEGATE_LAB_MYSQL";
/// Small and quick to start. What is written is on the disk when it is acknowledged, as by default;
/// nothing else is.
const SETTINGS: [&str; 9] = [
    "--bind-address=127.0.0.1",
    "--innodb-buffer-pool-size=32M",
    "--innodb-flush-log-at-trx-commit=1",
    "--loose-innodb-log-file-size=8M",
    "--innodb-doublewrite=0",
    "--sync-binlog=0",
    "--max-connections=200",
    "--skip-name-resolve",
    "--loose-mysqlx=0",
];

/// What every server has. A fresh MySQL knows `root` only on its socket.
const BEGIN: &str = "CREATE DATABASE tidegate; CREATE USER IF NOT EXISTS 'root'@'127.0.0.1'; \
     GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION";

/// What a server is told at its start, beside what every private server is told.
#[derive(Clone, Debug, Default)]
pub struct MariaDbOptions {
    program: Option<String>,
    settings: Vec<String>,
    certificate: Option<Certificate>,
}

impl MariaDbOptions {
    /// Nothing special.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another program: a `mysqld`, or a path. Without it, the environment variable
    /// `TIDEGATE_LAB_MYSQL`, and without that `mariadbd`.
    #[must_use]
    pub fn program(mut self, program: &str) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// An option of the command line, such as `max-allowed-packet` `64K`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push(format!("--{name}={value}"));
        self
    }

    /// Also talks TLS, on the same port.
    #[must_use]
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.certificate = Some(certificate.clone());
        self
    }

    fn program_name(&self) -> String {
        let named = self.program.clone().or_else(|| std::env::var(PROGRAM).ok());
        named.unwrap_or_else(|| "mariadbd".to_owned())
    }

    /// The command line.
    fn args(&self, port: u16, home: &Directory) -> Result<Vec<String>> {
        let place = |name: &str| home.path().join(name).display().to_string();
        let mut args = vec!["--no-defaults".to_owned()];
        args.extend(template::user());
        args.push(format!("--datadir={}", place("data")));
        // A server that starts deletes what it takes for leftovers in its directory for these.
        args.push(format!("--tmpdir={}", home.path().display()));
        args.push(format!("--socket={}", place("s")));
        args.push(format!("--pid-file={}", place("pid")));
        args.push(format!("--log-error={}", place("log")));
        args.push(format!("--port={port}"));
        args.extend(SETTINGS.map(str::to_owned));
        if let Some(certificate) = &self.certificate {
            args.push(format!("--ssl-cert={}", home.write("server.crt", certificate.pem())?));
            args.push(format!("--ssl-key={}", home.write("server.key", certificate.key_pem())?));
        }
        args.extend(self.settings.iter().cloned());
        Ok(args)
    }
}

/// A private server with an empty database `tidegate` and a user `root` without a password. Ends
/// when dropped.
///
/// ```
/// let server = tidegate_lab::MariaDbServer::start()?;
/// assert_eq!(server.query("SELECT 1, 'a'")?, [["1", "a"]]);
/// # Ok::<(), tidegate_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct MariaDbServer {
    // Declared first: the process must be gone before its directory is.
    process: Process,
    port: u16,
    socket: PathBuf,
    _home: Directory,
}

impl MariaDbServer {
    /// A server with nothing special, ready to answer.
    ///
    /// # Errors
    /// When the program is missing or the server does not get ready.
    pub fn start() -> Result<Self> {
        Self::start_with(&MariaDbOptions::new())
    }

    /// A server with options, ready to answer.
    ///
    /// # Errors
    /// As [`MariaDbServer::start`].
    pub fn start_with(options: &MariaDbOptions) -> Result<Self> {
        let program = options.program_name();
        let template = template::of(&program)?;
        let mut last = Error::new("never tried");
        for _ in 0..STARTS {
            let (home, port) = (Directory::new()?, free_port()?);
            template::copy(&template, &home.path().join("data"))?;
            let process = Process::start(&program, options.args(port, &home)?)?;
            let socket = home.path().join("s");
            let mut server = Self { process, port, socket, _home: home };
            match server.wait() {
                Ok(()) => {
                    server.ask("mysql", BEGIN)?;
                    return Ok(server);
                }
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

    /// Its Unix socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The number of its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// `mysql://root@127.0.0.1:port/tidegate`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/tidegate", self.port)
    }

    /// Runs statements as `root` in the database `tidegate`, over a connection of its own. The
    /// rows of all of them, each value as text.
    ///
    /// # Errors
    /// What the server or the client said.
    pub fn query(&self, sql: &str) -> Result<Vec<Vec<String>>> {
        let text = self.ask("tidegate", sql)?;
        Ok(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
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

    /// Lets it go on after [`MariaDbServer::pause`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Starts it again on the same port with what it had on its disk; kills it first if it runs.
    ///
    /// # Errors
    /// When it does not get ready.
    pub fn restart(&mut self) -> Result<()> {
        self.process.start_again()?;
        self.wait()
    }

    /// Until it answers. Nobody else can answer on a socket in our own directory.
    fn wait(&mut self) -> Result<()> {
        let ready = eventually("the server answers", DEADLINE, || {
            if !self.process.is_alive() {
                return Some(false);
            }
            // Asking costs a process; most of the wait is over before there is a socket.
            self.socket.exists().then(|| self.ask("mysql", "DO 1").ok().map(|_| true))?
        })?;
        if ready {
            return Ok(());
        }
        Err(Error::new(format!("the server on port {} ended at its start", self.port)))
    }

    /// One run of the command-line client.
    fn ask(&self, database: &str, sql: &str) -> Result<String> {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"]);
        command.arg(format!("--socket={}", self.socket.display())).args(["--execute", sql]);
        command.arg(database);
        let output = command.stdin(Stdio::null()).output().map_err(|why| {
            Error::new(format!("`mariadb` does not start ({why}); run `cargo xtask setup`"))
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Error::new(format!("mariadb: {}", said.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
