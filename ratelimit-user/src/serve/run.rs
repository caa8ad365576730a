//! A server from its start to its end.

use std::{convert::Infallible, future::pending, io, mem, path::Path, sync::Arc, time::Duration};

use anyhow::{Result, anyhow};
use axum::Router;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{
    access::Tokens,
    certificate,
    fleet::{self, Fleet},
    grpc, http,
    reload::{self, Reload, Used, rules_in_words},
    rules::{Book, InForce, Keeper, Operators},
    service::Service,
    sockets::{self, CONNECTIONS, Connections, Protocol, Shown},
    usage::{Kept, Thread},
};
use crate::{
    config::requests::{self, Listen},
    controller::notify::{
        journal::{self, Level},
        service_manager,
    },
};

/// Time between two looks for clients whose counts say nothing any more.
const FORGET: Duration = Duration::from_secs(60);

/// Serves until a signal ends it.
///
/// # Errors
///
/// Fails if the file has a problem, or if the address cannot be used.
pub(crate) fn run(file: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // A signal during the start waits.
    let signals = runtime.block_on(async { anyhow::Ok(Signals::register()?) })?;
    let mut requests = requests::read(file)?;
    reload::check(&requests).map_err(|problem| anyhow!("{}: {problem}", file.display()))?;
    let listens = requests.listens.clone();
    let shown = requests.encryption.as_ref().map(certificate::read).transpose();
    let shown = shown.map_err(|problem| anyhow!("{}: {problem}", file.display()))?.map(Shown::new);
    let kept = requests.store.as_deref().map(Keeper::open).transpose()?;
    let (keeper, contents) = kept.unzip();
    let joined = requests.fleet.clone();
    let style = requests.headers;
    let (used, tokens) = (Used::of(&requests), Tokens::new(mem::take(&mut requests.tokens)));
    let usage = requests.usage.clone().map(|file| Arc::new(Kept::new(file)));
    // It ends after the last call.
    let _thread = usage.as_ref().map(Thread::start).transpose()?;
    let in_force = InForce::new(Arc::new(Operators::of(requests)), contents.unwrap_or_default())
        .map_err(|problem| anyhow!("{}: {problem}", file.display()))?;
    let count = in_force.len();
    let service = Arc::new(Service::new(in_force.rules(), usage)?);
    service.change_tokens(tokens);
    service.change_style(style);
    let changed = Arc::clone(&service);
    let book = Arc::new(Book::new(in_force, keeper, Box::new(move |rules| changed.change(rules))));
    let reload = Arc::new(Reload {
        file: file.to_owned(),
        used,
        shown: shown.clone(),
        service: Arc::clone(&service),
        book: Arc::clone(&book),
    });
    let fleet = joined.and_then(|fleet| match Fleet::of(fleet) {
        Ok(fleet) => Some(fleet),
        Err(warning) => {
            journal::say(Level::Warning, warning);
            None
        }
    });
    runtime.block_on(async {
        let Signals { mut terminate, mut interrupt, mut hangup } = signals;
        let is_beyond = |listen: &Option<Listen>| listen.as_ref().is_some_and(Listen::is_beyond_host);
        let http_routes = http::routes(&service, book, is_beyond(&listens.http));
        let grpc_routes = grpc::routes(&service, is_beyond(&listens.grpc));
        let each = sockets::connections([&listens.http, &listens.grpc].into_iter().flatten().count(), CONNECTIONS);
        let http = open(listens.http.as_ref(), (Protocol::Http1, each), shown.as_ref(), http_routes).await?;
        let grpc = open(listens.grpc.as_ref(), (Protocol::Http2, each), shown.as_ref(), grpc_routes).await?;
        if let Some(fleet) = fleet {
            tokio::spawn(fleet::follow(Arc::clone(&service), fleet));
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
        journal::say(Level::Info, &format!("serving {} by {}", listens.shown(shown.is_some()), rules_in_words(count)));
        service_manager::ready("serving");
        {
            let (accept_http, accept_grpc) = (accept(http.as_ref()), accept(grpc.as_ref()));
            tokio::pin!(accept_http, accept_grpc);
            loop {
                tokio::select! {
                    never = &mut accept_http => match never {},
                    never = &mut accept_grpc => match never {},
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    _ = forget.tick() => {
                        let service = Arc::clone(&service);
                        spawn_blocking(move || service.limiter().forget(service.now()));
                    }
                }
            }
        }
        service_manager::stopping();
        service.end();
        tokio::join!(end(http), end(grpc));
        Ok(())
    })
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

async fn open(
    listen: Option<&Listen>,
    protocol: (Protocol, usize),
    shown: Option<&Arc<Shown>>,
    routes: Router,
) -> Result<Option<Connections>> {
    match listen {
        Some(listen) => Connections::open(listen, protocol, shown, routes).await.map(Some),
        None => Ok(None),
    }
}

async fn accept(connections: Option<&Connections>) -> Infallible {
    match connections {
        Some(connections) => connections.accept().await,
        None => pending().await,
    }
}

async fn end(connections: Option<Connections>) {
    if let Some(connections) = connections {
        connections.end().await;
    }
}
