//! What the service manager is told of the daemon (sd_notify(3)). Without one, nobody is told anything.

use std::{future, time::Duration};

use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::controller::notify::journal::{Level, say};

/// The file is in force, or what was before; this is said of it.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(one_line(status))]);
}

/// The file is being read again.
pub(crate) fn reloading() {
    // The clock cannot fail; without the time, newer managers would wait for it.
    let Ok(now) = NotifyState::monotonic_usec_now() else { return };
    tell(&[NotifyState::Reloading, now]);
}

/// The daemon is about to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells the manager in time that the daemon is not stuck, if it wants to hear that.
#[derive(Debug)]
pub(crate) struct Watchdog(Option<Interval>);

impl Watchdog {
    /// As the manager has asked for it.
    pub(crate) fn new() -> Self {
        let every = watchdog_enabled().map(|patience| patience / 2).filter(|every| *every > Duration::ZERO);
        Self(every.map(|every| {
            let mut interval = interval(every);
            // After a long reload, once is enough.
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        }))
    }

    /// Waits until it is time, and tells it. Never ends where nobody wants to hear it.
    pub(crate) async fn beat(&mut self) {
        let Some(interval) = &mut self.0 else { return future::pending().await };
        interval.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        say(Level::Warning, &format!("cannot tell the service manager (NOTIFY_SOCKET): {error}"));
    }
}

/// What follows would be another message, and is a file's text at times.
fn one_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
