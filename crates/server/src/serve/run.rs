//! A server from its start to its end.

use std::{
    convert::Infallible,
    future::pending,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, anyhow};
use ratelimit_base::notify::{
    journal::{self, Level},
    service_manager::{self, Watchdog},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{
    access::Tokens,
    alike, certificate,
    console::{Console, Pages, READERS as VISITORS},
    fleet::{self, Fleet},
    grpc, http,
    in_fleet::InFleet,
    reload::{self, Reload, Used},
    rules::{Book, InForce, Keeper, Member, Operators, StoreError, follow},
    service::Service,
    sockets::{self, Answers, CONNECTIONS, Connections, Protocol, Shown},
    usage::{Kept, Thread},
};
use crate::config::{self as requests, Listen, stored::Contents};

/// Time between two looks for clients whose counts say nothing any more.
const FORGET: Duration = Duration::from_secs(60);

/// Connections at a time of the address for metrics alone.
const READERS: usize = 16;

/// Serves until a signal ends it.
///
/// # Errors
///
/// Fails if the file has a problem, or if the address cannot be used.
pub fn run(file: &Path) -> Result<()> {
    journal::begin_log();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // A signal during the start waits.
    let signals = runtime.block_on(async { anyhow::Ok(Signals::register()?) })?;
    let requests = requests::read(file)?;
    reload::check(&requests).map_err(|problem| anyhow!("{}: {problem}", file.display()))?;
    let listens = requests.listens.clone();
    let shown = requests.encryption.as_ref().map(certificate::read).transpose();
    let shown = shown.map_err(|problem| anyhow!("{}: {problem}", file.display()))?.map(Shown::new);
    let (stops, style, merges_paths) = (requests.stops.clone(), requests.headers, requests.merges_paths);
    let shown_fleet = Arc::new(InFleet::default());
    let (link, linked) = watch::channel(None);
    let fleet = match requests.fleet.clone().map(|fleet| Fleet::of(fleet, link)) {
        Some((fleet, warning)) => {
            warning.into_iter().for_each(|warning| journal::say(Level::Warning, warning));
            fleet
        }
        None => None,
    };
    let name = requests.fleet.as_ref().map(|fleet| fleet.name.clone()).unwrap_or_default();
    let member = fleet.as_ref().map(|_| Member {
        name,
        link: linked.clone(),
        runtime: runtime.handle().clone(),
        shown: Arc::clone(&shown_fleet),
    });
    let keep = |path: &PathBuf| match member.clone() {
        Some(member) => Keeper::in_fleet(path, member),
        None => Keeper::open(path),
    };
    let (keeper, contents) = requests.store.as_ref().map(keep).transpose()?.unzip();
    let follows = keeper.is_some() && member.is_some();
    let tokens = Tokens::new(requests.tokens.clone()).with_users(requests.users.clone());
    let (used, console) = (Used::of(&requests), requests.console.clone());
    let usage = requests.usage.clone().map(|place| Arc::new(Kept::new(place)));
    // It ends after the last call.
    let start = |kept: &Arc<Kept>| Thread::start(kept, linked, runtime.handle().clone());
    let _thread = usage.as_ref().map(start).transpose()?;
    let contents = contents.unwrap_or_else(|| Ok(Contents::default()));
    let in_force = begin(Arc::new(Operators::of(requests)), contents, member.is_some())?;
    let count = in_force.count().in_words("");
    let (service, sender) = Service::new(in_force.rules(), shown_fleet, usage, stops, console.is_some())?;
    let service = Arc::new(service);
    service.change_tokens(tokens);
    service.change_style(style);
    service.change_merges_paths(merges_paths);
    let changed = Arc::clone(&service);
    let book = Arc::new(Book::new(in_force, keeper, Box::new(move |rules| changed.change(rules))));
    let (visited, visitors) =
        console.as_ref().map(|settings| (settings.listen.clone(), settings.group.clone())).unzip();
    let visitors: Option<String> = visitors.flatten();
    let console = console.map(|settings| Console::new(&service, &book, settings, shown.is_some())).transpose()?;
    let reload = Arc::new(Reload {
        file: file.to_owned(),
        used,
        shown: shown.clone(),
        service: Arc::clone(&service),
        book: Arc::clone(&book),
    });
    runtime.block_on(async {
        let Signals { mut terminate, mut interrupt, mut hangup } = signals;
        let is_beyond = |listen: &Option<Listen>| listen.as_ref().is_some_and(Listen::is_beyond_host);
        let http_routes = http::Routes::new(&service, Arc::clone(&book), is_beyond(&listens.http));
        let grpc_routes = grpc::Routes::new(&service, is_beyond(&listens.grpc));
        // A page about packets opens a connection to the daemon.
        let visits = if visited.is_some() { 2 * VISITORS } else { 0 };
        let readers = visits + if listens.metrics.is_some() { READERS + 1 } else { 0 };
        let callers = [&listens.http, &listens.grpc].into_iter().flatten().count();
        let each = sockets::connections(callers, CONNECTIONS, readers);
        let http =
            open(listens.http.as_ref().map(anyone), (Protocol::Http1, each), shown.as_ref(), http_routes).await?;
        let grpc =
            open(listens.grpc.as_ref().map(anyone), (Protocol::Http2, each), shown.as_ref(), grpc_routes).await?;
        let metrics_routes = http::Metrics::new(&service, is_beyond(&listens.metrics));
        let metrics = (Protocol::Http1Once, READERS);
        let metrics = open(listens.metrics.as_ref().map(anyone), metrics, shown.as_ref(), metrics_routes).await?;
        let console = match console.map(Arc::new) {
            Some(console) => {
                tokio::spawn(Arc::clone(&console).watch());
                open(
                    visited.as_ref().map(|listen| (listen, visitors.as_deref())),
                    (Protocol::Http1, VISITORS),
                    shown.as_ref(),
                    Pages(console),
                )
                .await?
            }
            None => None,
        };
        if let Some(fleet) = fleet {
            tokio::spawn(fleet::follow(Arc::clone(&service), fleet));
        }
        if let Some(Member { name, link, shown: alike, .. }) = member {
            let address = listens.shown(shown.is_some());
            tokio::spawn(alike::follow(Arc::clone(&book), link, alike, [name, address]));
        }
        if follows {
            tokio::spawn(follow(Arc::clone(&book)));
        }
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                let reload = Arc::clone(&reload);
                // Clients may have to be converted. Two reloads take turns.
                let _ = spawn_blocking(move || reload.run()).await;
            }
        });
        let mut forget = interval(FORGET);
        forget.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watchdog = Watchdog::requested();
        let address = |(what, listen): (_, &Listen)| format!(", {what} on {}", listen.shown(shown.is_some()));
        let others = [
            listens.metrics.as_ref().map(|listen| ("metrics", listen)),
            visited.as_ref().map(|listen| ("console", listen)),
        ];
        let others: String = others.into_iter().flatten().map(address).collect();
        let serving = listens.shown(shown.is_some());
        // Before this, an error is the one line that is printed.
        reload::warn_of_writers(file);
        journal::say(Level::Info, &format!("serving {serving} by {count}{others}"));
        service_manager::ready("serving");
        if let Some(sender) = sender {
            tokio::spawn(sender.run());
        }
        {
            let accept_http = accept(http.as_ref());
            let (accept_grpc, accept_metrics) = (accept(grpc.as_ref()), accept(metrics.as_ref()));
            let accept_console = accept(console.as_ref());
            tokio::pin!(accept_http, accept_grpc, accept_metrics, accept_console);
            loop {
                tokio::select! {
                    never = &mut accept_http => match never {},
                    never = &mut accept_grpc => match never {},
                    never = &mut accept_metrics => match never {},
                    never = &mut accept_console => match never {},
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    () = watchdog.beat() => {
                        // The next beat comes only if a thread that answers calls is free for this.
                        let _ = tokio::spawn(async {}).await;
                    }
                    _ = forget.tick() => {
                        let service = Arc::clone(&service);
                        spawn_blocking(move || service.limiter().forget(service.now()));
                    }
                }
            }
        }
        service_manager::stopping();
        service.end();
        tokio::join!(end(http), end(grpc), end(metrics), end(console));
        // Nothing waits for the engine when the runtime ends.
        let _ = spawn_blocking(move || book.close()).await;
        Ok(())
    })
}

/// Returns the rules at the start. What is wrong with rules of callers keeps none of the operator from being in force.
fn begin(operators: Arc<Operators>, contents: Result<Contents, StoreError>, is_in_fleet: bool) -> Result<InForce> {
    let rules = |contents| InForce::at_start(Arc::clone(&operators), contents);
    match contents.map_err(|error| error.to_string()).and_then(rules) {
        Err(problem) if operators.has_rules() => {
            let advice = match is_in_fleet {
                true => "none of them is in force now",
                false => {
                    "none of them is in force, and callers change none, until the file is right and the server reloads"
                }
            };
            journal::say(Level::Error, &format!("the rules of callers cannot be read: {problem}: {advice}"));
            rules(Contents::default()).map_err(|problem| anyhow!(problem))
        }
        outcome => outcome.map_err(|problem| anyhow!(problem)),
    }
}

/// The signals of a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn register() -> io::Result<Self> {
        let [terminate, interrupt, hangup] =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        Ok(Self { terminate: terminate?, interrupt: interrupt?, hangup: hangup? })
    }
}

/// Leaves a socket to the group of the server.
fn anyone(listen: &Listen) -> (&Listen, Option<&'static str>) {
    (listen, None)
}

async fn open<A: Answers>(
    listen: Option<(&Listen, Option<&str>)>,
    protocol: (Protocol, usize),
    shown: Option<&Arc<Shown>>,
    answers: A,
) -> Result<Option<Connections<A>>> {
    match listen {
        Some(listen) => Connections::open(listen, protocol, shown, answers).await.map(Some),
        None => Ok(None),
    }
}

async fn accept<A: Answers>(connections: Option<&Connections<A>>) -> Infallible {
    match connections {
        Some(connections) => connections.accept().await,
        None => pending().await,
    }
}

async fn end<A: Answers>(connections: Option<Connections<A>>) {
    if let Some(connections) = connections {
        connections.end().await;
    }
}
