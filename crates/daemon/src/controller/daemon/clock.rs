//! Waits until somebody sets the wall clock, or the host wakes from a suspend. Then the ends of rules in the file are
//! other moments of the monotonic clock.

use std::{io, os::fd::OwnedFd};

use anyhow::Result;
use rustix::{
    io::{Errno, read},
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime},
};
use tokio::io::unix::AsyncFd;

/// Watches the wall clock.
pub(super) struct WallClock(AsyncFd<OwnedFd>);

impl WallClock {
    /// Watches from now on.
    pub(super) fn new() -> Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        wind(&timer)?;
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        Ok(Self(unsafe { AsyncFd::register(timer) }?))
    }

    /// Waits until the clock is set.
    pub(super) async fn set(&mut self) -> Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let outcome = read(self.0.get_ref(), &mut [0; 8]);
            ready.clear_ready();
            if outcome == Err(Errno::CANCELED) {
                wind(self.0.get_ref())?;
                return Ok(());
            }
        }
    }
}

/// Sets the timer to a moment that never comes. The kernel cancels it when the clock is set.
fn wind(timer: &OwnedFd) -> io::Result<()> {
    let never = Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec { tv_sec: i64::MAX, tv_nsec: 0 },
    };
    match timerfd_settime(timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &never) {
        // It was set once more meanwhile. The timer is wound all the same.
        Ok(_) | Err(Errno::CANCELED) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
