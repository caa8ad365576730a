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

use crate::controller::{
    change::apply::{self, Applied},
    daemon::{
        links::Links,
        messages::{failure, level, text},
        socket::{self, Answer, Caller, Place, REQUEST_MOST, Request},
        watch::Watch,
    },
    events::{self, Watcher, What},
    metrics,
    notify::{
        journal::{self, Level, say},
        service_manager::{self, Watchdog},
    },
};
use crate::{
    config,
    dataplane::{Error, instance::daemon_lock::Claim},
    ssh::{self, Guarded},
};

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
        let mut links = Links::new()?;
        let metrics = metrics::Service::start(pins, place.metrics()?)?;
        let mut daemon = Daemon {
            pins: pins.to_owned(),
            file: file.to_owned(),
            force,
            origin: ssh::Origin::new(),
            interfaces: Vec::new(),
            claim: None,
            metrics,
        };
        let applied = daemon.apply(true, None)?;
        daemon.metrics.begin();
        say(level(&applied), &format!("{}: in force, {}", file.display(), text(&applied)));
        service_manager::ready(&daemon.status(&applied));
        let mut watchdog = Watchdog::new();
        // Only a journal is told what happens.
        let mut watcher = journal::is_journal().then(|| Watcher::new(pins));
        let mut steps = time::interval(events::STEP);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let [hangup, interrupt, terminate] = &mut signals;
        let (hangup, interrupt, terminate) = (as_signal(hangup)?, as_signal(interrupt)?, as_signal(terminate)?);
        loop {
            tokio::select! {
                _ = hangup.recv() => (daemon, _) = reload(daemon, None, &mut watchdog).await?,
                outcome = watch.changed() => {
                    outcome.context("cannot watch the file any more")?;
                    (daemon, _) = reload(daemon, None, &mut watchdog).await?;
                }
                come = links.come_back(&daemon.interfaces) => {
                    let come = come.context("cannot watch interfaces any more")?;
                    (daemon, ()) = aside(daemon, move |daemon| daemon.attach_again(&come), &mut watchdog).await?;
                }
                accepted = place.listener.accept() => {
                    let (stream, _) = accepted.context("cannot listen any more")?;
                    daemon = serve(stream, daemon, &mut watchdog).await?;
                }
                () = watchdog.beat() => {}
                _ = steps.tick(), if watcher.is_some() => watcher.iter_mut().for_each(tell),
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
            }
        }
        service_manager::stopping();
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
    /// Whether it may shut out SSH sessions.
    force: bool,
    /// The session that it was started from.
    origin: ssh::Origin,
    /// Those of the file that is in force.
    interfaces: Vec<config::Interface>,
    metrics: metrics::Service,
    /// That no other daemon keeps a file in force there.
    claim: Option<Claim>,
}

impl Daemon {
    fn apply(&mut self, is_first: bool, caller: Option<Caller>) -> Result<Applied> {
        let applied = self.read_and_apply(is_first, caller);
        give_back();
        applied
    }

    fn read_and_apply(&mut self, is_first: bool, caller: Option<Caller>) -> Result<Applied> {
        let config = config::read(&self.file)?;
        // What can fail of it comes first, and the rest cannot.
        let prepared = self.metrics.prepare(&config.metrics)?;
        let guarded = self.guarded(is_first, caller);
        let mut apply = || apply::apply(&self.pins, &config, is_first, &guarded, &mut self.claim);
        let applied = match apply() {
            // Whoever opens it the next time puts in place what is not yet.
            Err(error) if matches!(error.downcast_ref(), Some(Error::Unfinished { .. })) => apply()?,
            applied => applied?,
        };
        self.metrics.commit(prepared);
        self.interfaces = config.interfaces;
        Ok(applied)
    }

    /// Whom the file must not shut out: the session that asks, that which the daemon was started from, and all others that this host knows.
    fn guarded(&self, is_first: bool, caller: Option<Caller>) -> Guarded {
        let command = if is_first { "ratelimit run --force" } else { "ratelimit reload --force" };
        let asking = caller.and_then(|caller| caller.session);
        let sessions = asking.into_iter().chain(self.origin.session()).chain(ssh::sessions());
        let force = self.force || caller.is_some_and(|caller| caller.force);
        Guarded::new(sessions.filter(|_| !force), command)
    }

    /// Reads the file again. Whatever goes wrong, what was in force stays.
    fn reload(&mut self, caller: Option<Caller>) -> Answer {
        service_manager::reloading();
        let outcome = self.apply(false, caller);
        self.metrics.note_reload(outcome.is_ok());
        match outcome {
            Ok(applied) => {
                let text = format!("{}: read again, {}", self.file.display(), text(&applied));
                say(level(&applied), &text);
                service_manager::ready(&self.status(&applied));
                Answer::Done(text)
            }
            Err(error) => {
                let (text, stays) = failure(&error);
                say(Level::Error, &text);
                service_manager::ready(&format!("reload failed, {stays}"));
                Answer::Failed(text)
            }
        }
    }

    /// Attaches to those of its interfaces that have come back. What is said of one that refuses is said once.
    fn attach_again(&mut self, come: &[config::Interface]) {
        for interface in come {
            let name = &interface.name;
            match apply::attach_again(&self.pins, interface, &mut self.claim) {
                Ok(true) => say(Level::Info, &format!("{name}: there again, attached")),
                Ok(false) => {}
                Err(error) => {
                    let text = format!("{name}: there again, but not limited: {error:#}");
                    say(Level::Error, &text);
                    self.metrics.note_reload(false);
                    service_manager::ready(&text);
                }
            }
        }
        give_back();
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

/// Has the file read again, for whoever has asked.
async fn reload(daemon: Daemon, caller: Option<Caller>, watchdog: &mut Watchdog) -> Result<(Daemon, Answer)> {
    aside(daemon, move |daemon| daemon.reload(caller), watchdog).await
}

/// Has this done on another thread: it waits for the lock as long as another command has it, and meanwhile the service manager hears that nothing is
/// stuck.
async fn aside<T: Send + 'static>(
    mut daemon: Daemon,
    work: impl FnOnce(&mut Daemon) -> T + Send + 'static,
    watchdog: &mut Watchdog,
) -> Result<(Daemon, T)> {
    let mut task = spawn_blocking(move || {
        let outcome = work(&mut daemon);
        (daemon, outcome)
    });
    loop {
        tokio::select! {
            outcome = &mut task => return outcome.context("cannot do what was to be done"),
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
        Ok(Request::Reload) => (daemon, answer) = reload(daemon, None, watchdog).await?,
        Ok(Request::ReloadBy(caller)) => (daemon, answer) = reload(daemon, Some(caller), watchdog).await?,
        _ => {
            let text = "nothing was changed: the daemon does not know this request: is it of another version?";
            answer = Answer::Failed(text.to_owned());
        }
    }
    let answer = serde_json::to_string(&answer)? + "\n";
    let _ = timeout(PATIENCE, write.write_all(answer.as_bytes())).await;
    Ok(daemon)
}

/// Gives memory back to the system that a file took: a daemon needs it for a moment now and then.
fn give_back() {
    // SAFETY: it changes nothing that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
