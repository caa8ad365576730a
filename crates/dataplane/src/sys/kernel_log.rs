//! Prints the log lines of the kernel side.

use std::io::{self, Write as _};

use aya_log::EbpfLogger;
use tokio::io::{Interest, unix::AsyncFd};

use crate::{Error, error::Tried as _};

/// Prints every log line of the program to standard error, until `done`.
///
/// # Errors
///
/// [`Error::Bpf`] if the program's messages cannot be read.
pub async fn follow(program_id: u32, done: impl Future<Output = ()>) -> Result<(), Error> {
    // Only the first logger of a process counts, and this is the only place that sets one.
    let _ = log::set_logger(&Printer);
    let logger = EbpfLogger::init_from_id(program_id).tried("cannot read the program's messages")?;
    // SAFETY: the logger owns its descriptor and never closes or changes it, and it lives in what waits for it.
    let logger = unsafe { AsyncFd::register_with_interest(logger, Interest::READABLE) };
    let mut logger = logger.tried("cannot wait for messages")?;
    tokio::pin!(done);
    log::set_max_level(log::LevelFilter::Trace);
    loop {
        tokio::select! {
            () = &mut done => {
                // Libraries have messages of their own, which the operator has not requested.
                log::set_max_level(log::LevelFilter::Off);
                return Ok(());
            }
            ready = logger.readable_mut() => {
                let mut guard = ready.tried("cannot wait for messages")?;
                guard.get_inner_mut().flush();
                guard.clear_ready();
            }
        }
    }
}

struct Printer;

impl log::Log for Printer {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        // The program continues if the reader has gone.
        let _ = writeln!(io::stderr(), "{} {}", record.level().as_str().to_lowercase(), record.args());
    }

    fn flush(&self) {}
}
