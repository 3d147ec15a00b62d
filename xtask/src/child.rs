//! Starting other programs: everything they print is seen, nothing they start outlives its time.

use std::io::{BufRead, BufReader, PipeReader};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Context, Failure, Result};

/// How often we look whether a silent child has ended. Too long delays the end of each step.
const LOOK: Duration = Duration::from_millis(50);
/// How long we read on after a child ended, in case a process it left behind holds its output open.
const DRAIN: Duration = Duration::from_millis(500);

/// How a child ended.
pub(crate) struct Ended {
    /// Its exit status; `None` when it was stopped because its time was up.
    pub(crate) status: Option<ExitStatus>,
    /// From start to end.
    pub(crate) took: Duration,
}

impl Ended {
    /// Whether it ended by itself and said that all was well.
    pub(crate) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The end in words.
    pub(crate) fn describe(&self) -> String {
        self.status.map_or_else(|| "out of time".to_owned(), |status| status.to_string())
    }
}

/// The command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let (name, value) = (name.to_string_lossy(), value.unwrap_or_default().to_string_lossy());
        if name != "CARGO_TERM_COLOR" {
            words.push(format!("{name}={}", quoted(&value)));
        }
    }
    let program = command.get_program().to_string_lossy();
    words.push(program.rsplit('/').next().unwrap_or(&program).to_owned());
    words.extend(command.get_args().map(|arg| quoted(&arg.to_string_lossy())));
    words.join(" ")
}

/// A word of a command line, in quotes when it needs them.
fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains([' ', '\'', '"', '*']) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}

/// Runs a command, hands each line it prints (both streams, in order) to `each`, and stops it when
/// `limit` has passed.
///
/// # Errors
/// When the program cannot be started. A child that fails is not an error here.
pub(crate) fn watch(
    mut command: Command,
    limit: Option<Duration>,
    mut each: impl FnMut(&str),
) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let (reader, writer) = std::io::pipe().context("pipe")?;
    command.stdin(std::process::Stdio::null());
    command.stdout(writer.try_clone().context("pipe")?).stderr(writer);
    let mut child = command.spawn().context(&name)?;
    // The command holds the writing ends: while it lives, the output never ends.
    drop(command);
    let lines = read(reader);
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if limit.is_some_and(|limit| start.elapsed() > limit) {
            stop(&mut child);
            return Ok(Ended { status: None, took: start.elapsed() });
        }
        if ended.is_none() {
            ended = child.try_wait().context(&name)?.map(|status| (status, Instant::now()));
        }
        if ended.is_some_and(|(_, at)| at.elapsed() > DRAIN) {
            break;
        }
    }
    let status = match ended {
        Some((status, _)) => status,
        None => child.wait().context(&name)?,
    };
    Ok(Ended { status: Some(status), took: start.elapsed() })
}

/// Sends the lines of a pipe from a thread of their own, so that a deadline can be kept.
fn read(pipe: PipeReader) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while pipe.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&bytes);
            if sender.send(text.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
                break;
            }
            bytes.clear();
        }
    });
    receiver
}

/// Ends a child. It may have ended already, which is as good.
fn stop(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Says the command, runs it and shows what it prints.
pub(crate) fn show(command: Command, mut each: impl FnMut(&str)) -> Result<Ended> {
    println!("$ {}", line(&command));
    watch(command, None, |line| {
        println!("{line}");
        each(line);
    })
}

/// Runs a command and returns what it printed.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn output(command: Command) -> Result<String> {
    let line = line(&command);
    let mut text = String::new();
    let ended = watch(command, None, |line| {
        text.push_str(line);
        text.push('\n');
    })?;
    if ended.is_success() {
        Ok(text)
    } else {
        Err(Failure::check(format!("`{line}` failed ({})\n{text}", ended.describe())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_arrive_in_order() {
        let text = output(sh("echo one; echo two >&2; printf three")).unwrap();
        assert_eq!(text, "one\ntwo\nthree\n");
        assert!(output(sh("exit 3")).is_err());
    }

    #[test]
    fn a_child_that_hangs_is_stopped() {
        let ended = watch(sh("exec sleep 60"), Some(Duration::from_millis(100)), |_| {}).unwrap();
        assert!(ended.status.is_none());
        assert!(ended.took < Duration::from_secs(30));
    }

    #[test]
    fn a_process_left_behind_does_not_hold_us() {
        let ended = watch(sh("sleep 20 & exit 0"), None, |_| {}).unwrap();
        assert!(ended.is_success());
        assert!(ended.took < Duration::from_secs(10));
    }

    #[test]
    fn the_command_line_can_be_typed_again() {
        let mut command = Command::new("/bin/cargo");
        command.env("RUSTFLAGS", "--cfg loom").args(["test", "-p", "a b"]);
        assert_eq!(line(&command), "RUSTFLAGS='--cfg loom' cargo test -p 'a b'");
    }
}
