//! `ratelimit run`: a file's rules are in force, and follow it. Packets need no daemon: it comes and goes, and they are limited all the same.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{self, MissedTickBehavior, timeout},
};

use super::{
    apply::{self, Applied},
    events::{self, Watcher, What},
    journal::{self, Level, say},
    manager::{self, Watchdog},
    metrics,
    socket::{self, Answer, Place, REQUEST_MOST, Request},
    watch::Watch,
};
use crate::{config, dataplane::claim::Claim};

/// How long a command may take to say what it wants: it does so at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Puts the file in force, and follows it until a signal says otherwise.
///
/// # Errors
///
/// What is wrong with the file or stands in the way at the start; nothing has changed then.
pub fn run(pins: &Path, file: &Path, force: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let place = Place::take(pins, socket::DAEMON)?;
        // From before it is read, so that no change is missed.
        let mut watch = Watch::new(file).with_context(|| format!("cannot watch {}", file.display()))?;
        let mut signals = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        let metrics = metrics::Service::start(pins, place.metrics()?)?;
        let mut daemon = Daemon { pins: pins.to_owned(), file: file.to_owned(), force, claim: None, metrics };
        let applied = daemon.apply(true)?;
        daemon.metrics.begin();
        say(level(&applied), &format!("{}: in force, {}", file.display(), text(&applied)));
        manager::ready(&daemon.status(&applied));
        let mut watchdog = Watchdog::new();
        let (mut watcher, mut steps) = (Watcher::new(pins), time::interval(events::STEP));
        let is_journal = journal::is_journal();
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let [hangup, interrupt, terminate] = &mut signals;
        let (hangup, interrupt, terminate) = (as_signal(hangup)?, as_signal(interrupt)?, as_signal(terminate)?);
        loop {
            tokio::select! {
                _ = hangup.recv() => (daemon, _) = reload(daemon, &mut watchdog).await?,
                outcome = watch.changed() => {
                    outcome.context("cannot watch the file any more")?;
                    (daemon, _) = reload(daemon, &mut watchdog).await?;
                }
                accepted = place.listener.accept() => {
                    let (stream, _) = accepted.context("cannot listen any more")?;
                    daemon = serve(stream, daemon, &mut watchdog).await?;
                }
                () = watchdog.beat() => {}
                _ = steps.tick(), if is_journal => tell(&mut watcher),
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
            }
        }
        manager::stopping();
        say(Level::Info, "ended; limits stay in force without a daemon");
        Ok(())
    })
}

/// Tells the journal what has happened.
fn tell(watcher: &mut Watcher) {
    // Without an instance, nothing happens.
    for notice in watcher.news().unwrap_or_default() {
        let level = match notice.what {
            What::Ended { .. } | What::Unbanned { .. } | What::AdmissionRecovered { .. } => Level::Info,
            _ => Level::Warning,
        };
        say(level, &notice.what.to_string());
    }
}

fn as_signal(signal: &mut std::io::Result<tokio::signal::unix::Signal>) -> Result<&mut tokio::signal::unix::Signal> {
    signal.as_mut().map_err(|error| anyhow::anyhow!("cannot wait for signals: {error}"))
}

struct Daemon {
    pins: PathBuf,
    file: PathBuf,
    /// Whether the SSH session that it was started from may be shut out.
    force: bool,
    metrics: metrics::Service,
    /// That no other daemon keeps a file in force there.
    claim: Option<Claim>,
}

impl Daemon {
    fn apply(&mut self, is_first: bool) -> Result<Applied> {
        let applied = self.read_and_apply(is_first);
        give_back();
        applied
    }

    fn read_and_apply(&mut self, is_first: bool) -> Result<Applied> {
        let config = config::read(&self.file)?;
        // What can fail of it comes first, and the rest cannot.
        let prepared = self.metrics.prepare(&config.metrics)?;
        let applied = apply::apply(&self.pins, &config, is_first, self.force, &mut self.claim)?;
        self.metrics.commit(prepared);
        Ok(applied)
    }

    /// Reads the file again. Whatever goes wrong, what was in force stays.
    fn reload(&mut self) -> Answer {
        manager::reloading();
        let outcome = self.apply(false);
        self.metrics.note_reload(outcome.is_ok());
        match outcome {
            Ok(applied) => {
                let text = format!("{}: read again, {}", self.file.display(), text(&applied));
                say(level(&applied), &text);
                manager::ready(&self.status(&applied));
                Answer::Done(text)
            }
            Err(error) => {
                let text = format!("{error:#}");
                say(Level::Error, &format!("nothing was changed: {text}"));
                manager::ready(&format!("reload failed, what was in force stays: {text}"));
                Answer::Failed(text)
            }
        }
    }

    /// What is in force, in few words.
    fn status(&self, applied: &Applied) -> String {
        let Applied { set, unchanged, overruled, .. } = applied;
        let others = match overruled.len() {
            0 => String::new(),
            others => format!(", {others} set otherwise by command"),
        };
        format!("{} in force, rules: {}{others}", self.file.display(), set + unchanged)
    }
}

/// Has the file read again, on another thread: it waits for the lock as long as another command has it, and meanwhile the service manager hears that
/// nothing is stuck.
async fn reload(mut daemon: Daemon, watchdog: &mut Watchdog) -> Result<(Daemon, Answer)> {
    let mut task = spawn_blocking(move || {
        let answer = daemon.reload();
        (daemon, answer)
    });
    loop {
        tokio::select! {
            outcome = &mut task => return outcome.context("cannot read the file again"),
            () = watchdog.beat() => {}
        }
    }
}

/// Does what a command asks for. Whoever does not say it, or goes away before the answer, has missed it.
async fn serve(stream: UnixStream, mut daemon: Daemon, watchdog: &mut Watchdog) -> Result<Daemon> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let Ok(Ok(_)) = timeout(PATIENCE, BufReader::new(read.take(REQUEST_MOST)).read_line(&mut line)).await else {
        return Ok(daemon);
    };
    let answer;
    match serde_json::from_str(&line) {
        Ok(Request::Reload) => (daemon, answer) = reload(daemon, watchdog).await?,
        _ => answer = Answer::Failed("the daemon does not know this request: is it of another version?".to_owned()),
    }
    let answer = serde_json::to_string(&answer)? + "\n";
    let _ = timeout(PATIENCE, write.write_all(answer.as_bytes())).await;
    Ok(daemon)
}

/// What was done, in words.
fn text(applied: &Applied) -> String {
    let Applied { set, deleted, unchanged, .. } = applied;
    let mut parts = vec![format!("rules: {set} set, {deleted} deleted, {unchanged} unchanged")];
    if !applied.attached.is_empty() {
        parts.push(format!("attached to {}", applied.attached.join(", ")));
    }
    if !applied.detached.is_empty() {
        parts.push(format!("detached from {}", applied.detached.join(", ")));
    }
    if let Some(peer) = &applied.allowed_ssh {
        parts.push(format!("{peer} allowed, because this SSH session comes from it"));
    }
    if let Some(reason) = &applied.not_detached {
        parts
            .push(format!("what the file names no more was not detached, which the next reload tries again: {reason}"));
    }
    if !applied.overruled.is_empty() {
        parts.push(format!("set otherwise by command: {}", applied.overruled.join(", ")));
    }
    parts.join("; ")
}

/// Gives memory back to the system that a file took: a daemon needs it for a moment now and then.
fn give_back() {
    // SAFETY: it changes nothing that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

fn level(applied: &Applied) -> Level {
    if applied.overruled.is_empty() && applied.not_detached.is_none() { Level::Info } else { Level::Warning }
}
