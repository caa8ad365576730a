//! Messages for the service manager (sd_notify(3)). Without one, nothing is sent.

use std::{future, time::Duration};

use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::notify::journal::{Level, say};

/// Reports that the daemon is ready. `status` tells what is in force.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(one_line(status))]);
}

/// Reports that the daemon reads its file again.
pub fn reloading() {
    // Newer service managers need the time. This clock cannot fail.
    let Ok(now) = NotifyState::monotonic_usec_now() else { return };
    tell(&[NotifyState::Reloading, now]);
}

/// Reports that the daemon ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Reports regularly that the daemon is alive, if the service manager requests it.
#[derive(Debug)]
pub struct Watchdog(Option<Interval>);

impl Watchdog {
    /// Reads the interval that the service manager requests.
    pub fn requested() -> Self {
        let every = watchdog_enabled().map(|patience| patience / 2).filter(|every| *every > Duration::ZERO);
        Self(every.map(|every| {
            let mut interval = interval(every);
            // After a long reload, one report is enough.
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        }))
    }

    /// Reports nothing.
    pub const fn silent() -> Self {
        Self(None)
    }

    /// Waits until the next report is due, and sends it. Never returns if no reports are requested.
    pub async fn beat(&mut self) {
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

/// Returns the first line. A further line would be another message.
fn one_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
