//! The loop of `ratelimit run`.

use std::{io, path::Path, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use ratelimit_base::{
    notify::{
        journal::{self, Level, say},
        service_manager::{self, Watchdog},
    },
    tables::problem::ConfigError,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
    time::{self, MissedTickBehavior},
};

use super::{
    answers::Waiting,
    clock::WallClock,
    feeds::Feeds,
    links::Links,
    log::Log,
    memory,
    minute::{self, Minute},
    network::Network,
    rights,
    saver::Saver,
    state::{Daemon, Services},
    watch::Watch,
};
use crate::{
    config::RequestTables,
    controller::{
        crowdsec, downloads,
        events::{changes::record_of_daemon, watcher::STEP},
        fleet, metrics,
        socket::{
            folder::DAEMON,
            incoming::{IncomingRequest, IncomingRequests},
            request::{Caller, FileState, Reply, Request},
            server::Server,
        },
        stops, view,
    },
};
use ratelimit_dataplane::instance::lock;

/// The time between two looks at the routes, and at interfaces that others keep off.
const ROUTES: Duration = Duration::from_secs(10);

/// The largest request in bytes: all shared rules of a fleet as text in JSON.
const MOST: u64 = 512 << 10;

/// The stack of a thread that applies a file: as much as a command has.
const STACK: usize = 8 << 20;

/// Applies the file, and applies it again whenever it changes, until a signal ends the daemon.
///
/// # Errors
///
/// Fails if the file cannot be applied at the start. Nothing has changed then.
pub fn run(pins: &Path, file: &Path, force: bool, requests: RequestTables) -> Result<()> {
    journal::begin_log();
    memory::limit_heap();
    lock::wait_at_most_ten_seconds();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().thread_stack_size(STACK).build()?;
    let outcome = runtime.block_on(follow(pins, file, force, requests));
    // A snapshot on a disk that hangs must not keep the process.
    runtime.shutdown_background();
    outcome
}

async fn follow(pins: &Path, file: &Path, force: bool, tables: RequestTables) -> Result<()> {
    let server = Server::take(pins, DAEMON)?;
    // The watch begins before the file is read, so that no change is missed.
    let mut watch = Watch::new(file).map_err(|cause| unwatched(file, cause))?;
    let mut signals = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let mut links = Links::new()?;
    let mut network = Network::new()?;
    let mut clock = WallClock::new().context("cannot watch the clock")?;
    let stops = stops::Service::start(pins);
    let crowdsec = crowdsec::Service::of(pins);
    let fleet = fleet::service::Service::of(pins, stops.desk());
    let downloads = downloads::Service::default();
    let fetched = downloads.fetched();
    let shown = metrics::Shown {
        fleet: fleet.shown(),
        stops: stops.shown(),
        crowdsec: crowdsec.shown(),
        lists: downloads.shown(),
    };
    let metrics = metrics::Service::start(pins, server.metrics()?, shown);
    // Dropping the lock removes the socket.
    let Server { listener, lock: _lock } = server;
    let mut requests = IncomingRequests::new(listener, MOST);
    let view = view::Service::of(pins);
    let services = Services { metrics, fleet, stops, view, downloads, crowdsec };
    let daemon = Daemon::new(pins, file, force, tables, services);
    // Until the file is in force, the service manager hears nothing.
    let (mut daemon, started) = on_thread(daemon, Daemon::start, &mut Watchdog::silent()).await?;
    started?;
    let mut waiting = Waiting::at(daemon.fleet.desk());
    journal::never_wait();
    let (mut feeds, mut saver) = (Feeds::default(), Saver::of(pins));
    let mut watchdog = Watchdog::requested();
    let mut log = Log::of(pins);
    let mut steps = time::interval(STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut minute = Minute::of(pins);
    let mut minute_steps = time::interval(minute::STEP);
    minute_steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut route_steps = time::interval(ROUTES);
    route_steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let [hangup, interrupt, terminate] = &mut signals;
    let (hangup, interrupt, terminate) = (as_signal(hangup)?, as_signal(interrupt)?, as_signal(terminate)?);
    loop {
        feeds.follow(&daemon.in_force.feeds);
        saver.follow(daemon.in_force.state.as_ref());
        tokio::select! {
            _ = hangup.recv() => (daemon, _) = reload(daemon, None, &mut watchdog).await?,
            outcome = watch.changed() => {
                outcome.context("cannot watch the file any more")?;
                (daemon, _) = reload(daemon, None, &mut watchdog).await?;
            }
            outcome = feeds.changed() => {
                outcome.context("cannot watch the file of a list any more")?;
                (daemon, _) = reload(daemon, None, &mut watchdog).await?;
            }
            () = fetched.notified() => (daemon, _) = reload(daemon, None, &mut watchdog).await?,
            changed = links.changed(&daemon.in_force.interfaces) => {
                let changed = changed.context("cannot watch interfaces any more")?;
                (daemon, ()) = on_thread(daemon, move |daemon| daemon.attach_again(&changed), &mut watchdog).await?;
            }
            changed = network.changed() => {
                changed.context("cannot watch the addresses of this host any more")?;
                let found;
                (daemon, found) = on_thread(daemon, Daemon::follow_network, &mut watchdog).await?;
                network.looked(found, ROUTES / 10);
            }
            set = clock.set() => {
                set.context("cannot watch the clock any more")?;
                (daemon, ()) = on_thread(daemon, Daemon::renew_ends, &mut watchdog).await?;
            }
            () = daemon.late() => (daemon, ()) = on_thread(daemon, Daemon::try_again, &mut watchdog).await?,
            request = requests.next() => {
                let shown = Seen { minute: &minute, saver: &saver };
                daemon = serve(request, daemon, shown, &mut waiting, &mut watchdog).await?;
            }
            () = watchdog.beat() => {}
            _ = minute_steps.tick() => minute.read(),
            _ = route_steps.tick() => (daemon, ()) = on_thread(daemon, Daemon::look_around, &mut watchdog).await?,
            () = saver.step() => {}
            _ = steps.tick() => log.write(),
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    service_manager::stopping();
    saver.end().await;
    say(Level::Info, "ended; limits stay in force without a daemon");
    record_of_daemon(pins, "ended; limits stay in force");
    Ok(())
}

fn as_signal(signal: &mut io::Result<Signal>) -> Result<&mut Signal> {
    signal.as_mut().map_err(|error| anyhow!("cannot wait for signals: {error}"))
}

/// Reloads the file. Without a caller, nobody has asked for it.
async fn reload(daemon: Daemon, caller: Option<Caller>, watchdog: &mut Watchdog) -> Result<(Daemon, Reply)> {
    on_thread(daemon, move |daemon| daemon.reload(caller), watchdog).await
}

/// Runs `work` on another thread, because it waits for the lock of the instance. The watchdog is served meanwhile.
async fn on_thread<T: Send + 'static>(
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
            outcome = &mut task => return outcome.context("the daemon's worker thread failed"),
            () = watchdog.beat() => {}
        }
    }
}

/// What an answer about the file shows beside it.
#[derive(Clone, Copy)]
struct Seen<'a> {
    minute: &'a Minute,
    saver: &'a Saver,
}

/// Answers one request.
async fn serve(
    IncomingRequest { line, user, command }: IncomingRequest,
    mut daemon: Daemon,
    Seen { minute, saver }: Seen<'_>,
    waiting: &mut Waiting,
    watchdog: &mut Watchdog,
) -> Result<Daemon> {
    let request = serde_json::from_str(&line);
    if let Some(text) = request.as_ref().ok().and_then(|request| rights::refusal(request, user)) {
        return waiting.send(command, &Reply::Failed(text.to_owned())).map(|()| daemon);
    }
    let reply;
    match request {
        Ok(Request::Reload) => {
            let caller = Caller { session: None, force: false, declines: false };
            (daemon, reply) = reload(daemon, Some(caller), watchdog).await?;
        }
        Ok(Request::State) => {
            let state = daemon.file_state().map(|state| FileState {
                last_minute: minute.rates(),
                unsaved: saver.failure(),
                ..state
            });
            reply = state.map_or_else(|error| Reply::Failed(format!("{error:#}")), Reply::State);
        }
        Ok(Request::Rules(request, who)) => return waiting.answer(request, who, command).map(|()| daemon),
        Ok(Request::Stops(address)) => reply = Reply::Stops(daemon.stops.of_address(&address)),
        Ok(Request::StopEvents(number)) => reply = Reply::StopEvents(daemon.stops.events_after(number)),
        Ok(Request::Fleet) => reply = Reply::Fleet(daemon.fleet.status()),
        Ok(Request::ReloadBy(caller)) => {
            // An allow outranks every rule, so only root can cause one.
            let caller = Caller { declines: caller.declines || user != Some(rights::ROOT), ..caller };
            (daemon, reply) = reload(daemon, Some(caller), watchdog).await?;
        }
        _ => {
            let text =
                "nothing was changed: the daemon does not know this request: if it is of another version, restart it";
            reply = Reply::Failed(text.to_owned());
        }
    }
    waiting.send(command, &reply).map(|()| daemon)
}

/// Returns the error for a file that cannot be watched. Only its folder must be readable.
fn unwatched(file: &Path, cause: io::Error) -> ConfigError {
    let is_refused = cause.kind() == io::ErrorKind::PermissionDenied;
    let path = file.parent().filter(|_| is_refused).unwrap_or(file);
    ConfigError::Unreadable { path: path.to_owned(), cause }
}
