//! Keeps what clients have used: a thread writes it to the file, or to the engine of the fleet.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use ratelimit_base::notify::journal::{self, Level};
use ratelimit_limiter::Record;
use tokio::runtime::Handle;

use super::in_fleet::Link;
use crate::usage::{Recorder, SharedWriter, UsagePlace, Writer};

/// Time between two writes.
const PERIOD: Duration = Duration::from_secs(5);
/// Time for a call of the engine, and for all calls of a write.
const PATIENCE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(4);

/// What clients have used, as long as it waits to be written.
#[derive(Debug)]
pub(super) struct Kept {
    place: UsagePlace,
    recorder: Arc<Recorder>,
    failures: AtomicU64,
}

impl Kept {
    pub(super) fn new(place: UsagePlace) -> Self {
        Self { place, recorder: Arc::default(), failures: AtomicU64::new(0) }
    }

    /// Returns what records requests of now.
    pub(super) fn record(&self) -> impl Record + '_ {
        self.recorder.at(now())
    }

    /// Adds its metrics to a page.
    pub(super) fn write(&self, page: &mut String) {
        let (lost, failures) = (self.recorder.lost(), self.failures.load(Ordering::Relaxed));
        for (name, help, count) in [
            ("lost", "Requests that found no room in the usage of clients.", lost),
            ("failed_writes", "Writes of usage that failed.", failures),
        ] {
            let name = format!("ratelimit_check_usage_{name}_total");
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}");
        }
    }
}

/// The thread that writes. When this is dropped, it writes what is left and ends.
pub(super) struct Thread {
    /// Dropped first.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts the thread, which finds the engine of the fleet here. A file that cannot be written now is tried again later,
    /// whatever the reason is: limits do not depend on it.
    ///
    /// # Errors
    ///
    /// Fails if the system has no thread.
    pub(super) fn start(kept: &Arc<Kept>, link: Link, runtime: Handle) -> Result<Self> {
        let recorder = Arc::clone(&kept.recorder);
        let writer = match &kept.place {
            UsagePlace::File(file) => AnyWriter::File(Writer::new(recorder, file.clone())),
            UsagePlace::Fleet(settings) => AnyWriter::Fleet(SharedWriter::new(recorder, *settings), link, runtime),
        };
        let mut work = Work { kept: Arc::clone(kept), writer, is_failing: false };
        // The operator learns at once what is wrong with a file. The engine has not answered yet.
        if matches!(work.writer, AnyWriter::File(_)) {
            work.write();
        }
        let (end, ended) = mpsc::channel();
        let run = move || {
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                work.write();
            }
            work.end();
        };
        let thread = thread::Builder::new().name("usage".to_owned()).spawn(run).context("cannot start a thread")?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What writes to one of the places.
enum AnyWriter {
    File(Writer),
    Fleet(SharedWriter, Link, Handle),
}

impl AnyWriter {
    /// Returns whether nothing waits because a write has failed.
    fn is_empty(&self) -> bool {
        match self {
            Self::File(writer) => writer.is_empty(),
            Self::Fleet(writer, ..) => writer.is_empty(),
        }
    }

    fn write(&mut self) -> Result<(), String> {
        match self {
            Self::File(writer) => {
                if let Some(aside) = writer.write(now()).map_err(|error| error.to_string())? {
                    let text = format!("the file of usage was damaged, and has the name {} now", aside.display());
                    journal::say(Level::Warning, &format!("{text}: usage begins anew in another file"));
                }
                Ok(())
            }
            Self::Fleet(writer, link, runtime) => {
                writer.collect();
                if writer.is_empty() {
                    return Ok(());
                }
                let engine = link.borrow().clone().ok_or("the engine of the fleet does not answer")?;
                let (engine, begin) = (engine.within(PATIENCE), Instant::now());
                runtime
                    .block_on(writer.write(&engine, || begin.elapsed() >= LONGEST))
                    .map_err(|error| error.to_string())
            }
        }
    }
}

/// What the thread does.
struct Work {
    kept: Arc<Kept>,
    writer: AnyWriter,
    is_failing: bool,
}

impl Work {
    fn write(&mut self) {
        let written = self.writer.write();
        self.tell(written);
    }

    fn end(mut self) {
        if let Some(loss) = self.write_last() {
            journal::say(Level::Warning, &loss);
        }
    }

    /// Writes what is left. Returns a line about what cannot be written.
    fn write_last(&mut self) -> Option<String> {
        let error = self.writer.write().err()?;
        (!self.writer.is_empty()).then(|| format!("the latest usage is lost: {error}"))
    }

    /// Logs the start and the end of a time in which nothing can be written.
    fn tell(&mut self, written: Result<(), String>) {
        let place = if matches!(self.writer, AnyWriter::File(_)) { "its file" } else { "the engine of the fleet" };
        match written {
            Ok(()) if self.is_failing => journal::say(Level::Info, &format!("usage is written to {place} again")),
            Ok(()) => {}
            Err(error) => {
                self.kept.failures.fetch_add(1, Ordering::Relaxed);
                if !self.is_failing {
                    let text = format!("usage waits in memory until {place} can be written: {error}");
                    journal::say(Level::Warning, &text);
                }
                self.is_failing = true;
                return;
            }
        }
        self.is_failing = false;
    }
}

/// Returns the seconds since the Unix epoch, by the clock that people read.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::UsageFile;
    use ratelimit_limiter::{Algorithm, Limit, Limiter, Rate, Rule};

    #[test]
    fn only_usage_that_was_counted_is_lost_without_a_folder() {
        let file = UsageFile { path: "/nonexistent/usage.db".into(), days: 30, rows: 1_000 };
        let kept = Arc::new(Kept::new(UsagePlace::File(file.clone())));
        let writer = AnyWriter::File(Writer::new(Arc::clone(&kept.recorder), file));
        let mut work = Work { kept: Arc::clone(&kept), writer, is_failing: false };
        let problem =
            "/nonexistent/usage.db: its folder does not exist: create it, and let the user of the server write there";
        work.write();
        assert_eq!((kept.failures.load(Ordering::Relaxed), work.write_last()), (1, None));
        let limit = Limit::new(Rate { amount: 1, period: 1_000_000_000 }, None, Algorithm::FixedWindow).unwrap();
        let limiter = Limiter::new([Rule::new("create", [limit]).unwrap()], [1, 2]);
        limiter.check_and_record(&[("user", "17")], 1, 0, &mut kept.record());
        assert_eq!(work.write_last(), Some(format!("the latest usage is lost: {problem}")));
    }
}
