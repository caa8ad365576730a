//! A server from its start to its end.

use std::{convert::Infallible, future::pending, path::Path, sync::Arc, time::Duration};

use anyhow::{Result, bail};
use axum::Router;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{
    grpc, http,
    service::Service,
    sockets::{Connections, Protocol},
};
use crate::{
    config::requests::{self, Listen, Listens, Requests},
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
    let Requests { listens, rules } = requests::read(file)?;
    if listens == Listens::default() {
        bail!("{}: nothing to serve: add `http` or `grpc` to the table [serve]", file.display());
    }
    let count = rules.len();
    let service = Arc::new(Service::new(rules)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut hangup = signal(SignalKind::hangup())?;
        let http = open(listens.http.as_ref(), Protocol::Http1, http::routes(Arc::clone(&service))).await?;
        let grpc = open(listens.grpc.as_ref(), Protocol::Http2, grpc::routes(Arc::clone(&service))).await?;
        let mut forget = interval(FORGET);
        forget.set_missed_tick_behavior(MissedTickBehavior::Delay);
        journal::say(Level::Info, &format!("serving {listens} by {}", rules_in_words(count)));
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
                    _ = hangup.recv() => {
                        let (service, file, listens) = (Arc::clone(&service), file.to_owned(), listens.clone());
                        // Clients may have to be converted. Two reloads take turns.
                        let _ = spawn_blocking(move || reload(&service, &file, &listens)).await;
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
        tokio::join!(end(http), end(grpc));
        Ok(())
    })
}

async fn open(listen: Option<&Listen>, protocol: Protocol, routes: Router) -> Result<Option<Connections>> {
    match listen {
        Some(listen) => Connections::open(listen, protocol, routes).await.map(Some),
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

/// Puts the rules of the file in force. A file with problems changes nothing.
fn reload(service: &Service, file: &Path, listens: &Listens) {
    service_manager::reloading();
    match requests::read(file) {
        Ok(Requests { rules, listens: new }) => {
            if new != *listens {
                journal::say(Level::Warning, "another address needs a restart: the one before stays in use");
            }
            let count = rules.len();
            service.change(rules);
            journal::say(Level::Info, &format!("{} in force", rules_in_words(count)));
        }
        Err(error) => journal::say(Level::Error, &format!("the rules before stay in force: {error}")),
    }
    service_manager::ready("serving");
}

fn rules_in_words(count: usize) -> String {
    if count == 1 { "1 rule".to_owned() } else { format!("{count} rules") }
}
