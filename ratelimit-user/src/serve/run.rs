//! A server from its start to its end.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Result, bail};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{
    http,
    service::Service,
    sockets::{Connections, Listener},
    usage::{Kept, Thread},
};
use crate::{
    config::requests::{self, Listen, Requests},
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
    let Requests { http, rules, usage } = requests::read(file)?;
    let Some(listen) = http else {
        bail!("{}: nothing to serve: add `http` to the table [serve]", file.display());
    };
    let count = rules.len();
    let usage = usage.map(|file| Arc::new(Kept::new(file)));
    // It ends after the last call.
    let _thread = usage.as_ref().map(Thread::start).transpose()?;
    let service = Arc::new(Service::new(rules, usage)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut hangup = signal(SignalKind::hangup())?;
        let listener = Listener::open(&listen).await?;
        let connections = Connections::new(http::routes(Arc::clone(&service)));
        let mut forget = interval(FORGET);
        forget.set_missed_tick_behavior(MissedTickBehavior::Delay);
        journal::say(Level::Info, &format!("serving {listen} by {}", rules_in_words(count)));
        service_manager::ready("serving");
        {
            let accept = connections.accept(&listener);
            tokio::pin!(accept);
            loop {
                tokio::select! {
                    never = &mut accept => match never {},
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    _ = hangup.recv() => {
                        let (service, file, listen) = (Arc::clone(&service), file.to_owned(), listen.clone());
                        // Clients may have to be converted. Two reloads take turns.
                        let _ = spawn_blocking(move || reload(&service, &file, &listen)).await;
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
        drop(listener);
        connections.end().await;
        Ok(())
    })
}

/// Puts the rules of the file in force. A file with problems changes nothing.
fn reload(service: &Service, file: &Path, listen: &Listen) {
    service_manager::reloading();
    match requests::read(file) {
        Ok(Requests { rules, http, usage }) => {
            if http.as_ref() != Some(listen) {
                journal::say(Level::Warning, "another address needs a restart: the one before stays in use");
            }
            if usage.as_ref() != service.usage.as_deref().map(|kept| &kept.file) {
                journal::say(Level::Warning, "other settings of usage need a restart: those before stay in use");
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
