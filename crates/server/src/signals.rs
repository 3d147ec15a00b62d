//! How a terminal or a supervisor asks the process to end, or to read its configuration again.

use std::io;

/// Signals that end the process: Ctrl-C, and SIGTERM where there is one.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// From here on the signals are ours. Must be called within the runtime.
    #[cfg(unix)]
    pub(crate) fn catch() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// From here on the signals are ours.
    #[cfg(not(unix))]
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next one.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}

/// SIGHUP, where there is one: the configuration is to be read again.
pub(crate) struct Hangups {
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    /// From here on the signal is ours, if `wanted`; otherwise it ends the process, as a terminal
    /// means it that is closed. Must be called within the runtime.
    #[cfg(unix)]
    pub(crate) fn catch(wanted: bool) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = wanted.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { hangup })
    }

    /// There is no such signal.
    #[cfg(not(unix))]
    pub(crate) fn catch(_wanted: bool) -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next one.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        match &mut self.hangup {
            Some(hangup) => {
                let _ = hangup.recv().await;
            }
            None => std::future::pending().await,
        }
    }

    /// Waits for ever.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        std::future::pending().await
    }
}
