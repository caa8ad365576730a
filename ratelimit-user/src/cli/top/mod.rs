//! `ratelimit top`: a live screen.

mod change;
mod followed;
mod reading;
mod screen;
mod state;

use std::{
    io::{self, IsTerminal as _},
    path::Path,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};
use ratelimit_dataplane::{Error, sys::host};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use self::{
    reading::Reader,
    state::{Action, State},
};
use crate::cli::print::{answer::Answer, output::Output};

/// The time between two readings.
const STEP: Duration = Duration::from_secs(1);
/// The time from the first reading to the second, without which there are no rates.
const FIRST_STEP: Duration = Duration::from_millis(200);
/// The time that a signal leaves for restoring the terminal.
const GRACE: Duration = Duration::from_secs(2);
/// The longest wait for a key. A signal ends the command after it.
const WAIT: Duration = Duration::from_millis(250);

pub(crate) fn run(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    if output.json {
        bail!("top has no JSON: `ratelimit status -j` and `ratelimit sources -j --during 1s` print the same");
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        bail!("top needs a terminal: `ratelimit status` and `ratelimit sources --during 1s` print the same once");
    }
    let mut reader = Reader::of(pins);
    let mut state = State::new(reader.read(followed::By::Refused)?);
    let is_ended = ended()?;
    let mut terminal = ratatui::try_init().context("cannot prepare the terminal")?;
    let outcome = follow(&mut terminal, &mut state, &mut reader, pins, &is_ended);
    let restored = ratatui::try_restore();
    if wait_for(Duration::ZERO) == Terminal::Gone {
        // Dropping it would print that it cannot show the cursor, and fail.
        std::mem::forget(terminal);
        return Ok(Answer::Done);
    }
    restored.context("cannot restore the terminal: `reset` does")?;
    outcome.map(|()| Answer::Done)
}

/// Draws, reads keys and reads the instance again, until the operator ends it.
fn follow(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    reader: &mut Reader<'_>,
    pins: &Path,
    is_ended: &AtomicBool,
) -> Result<()> {
    let mut due = Instant::now() + FIRST_STEP;
    while !is_ended.load(Ordering::Relaxed) {
        terminal.draw(|frame| screen::draw(frame, state))?;
        let wait = due.saturating_duration_since(Instant::now()).min(WAIT);
        match wait_for(wait) {
            Terminal::Gone => return Ok(()),
            Terminal::Silent => {}
            Terminal::Readable => {
                while event::poll(Duration::ZERO)? {
                    let Event::Key(key) = event::read()? else { continue };
                    if key.kind == KeyEventKind::Release {
                        continue;
                    }
                    match state.press(key) {
                        Some(Action::End) => return Ok(()),
                        Some(Action::Set(verdict, prefix)) => state.say(change::set(pins, verdict, prefix)),
                        None => {}
                    }
                    if state.is_asking() {
                        // Keys that were pressed before the question is on the screen are no answer to it.
                        discard_keys()?;
                    }
                }
            }
        }
        if Instant::now() >= due {
            due = Instant::now() + STEP;
            if !state.is_paused() {
                match reader.read(state.by()) {
                    Ok(reading) => state.show(reading),
                    // Another command is replacing the instance, which is followed too.
                    Err(error) if is_passing(&error) => {}
                    Err(error) => state.fail(format!("{error:#}")),
                }
            }
        }
    }
    Ok(())
}

fn discard_keys() -> io::Result<()> {
    while event::poll(Duration::ZERO)? {
        event::read()?;
    }
    Ok(())
}

/// What a wait for keys has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Terminal {
    Silent,
    Readable,
    Gone,
}

/// Waits for a key. crossterm would read the end of a terminal that is gone again and again.
fn wait_for(time: Duration) -> Terminal {
    let stdin = io::stdin();
    let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    let _ = poll(&mut ready, Some(&time));
    let found = ready[0].revents();
    match found {
        _ if found.intersects(PollFlags::HUP | PollFlags::ERR) => Terminal::Gone,
        _ if found.contains(PollFlags::IN) => Terminal::Readable,
        _ => Terminal::Silent,
    }
}

fn is_passing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Interrupted | Error::Unfinished { .. }))
}

/// Returns a word that a signal sets. Its default would leave the terminal without its settings.
fn ended() -> Result<Arc<AtomicBool>> {
    let is_ended = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&is_ended);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Caught before the terminal changes.
    let entered = runtime.enter();
    let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()];
    let [terminate, hangup, interrupt, quit] = kinds.map(signal);
    let (mut terminate, mut hangup, mut interrupt, mut quit) = (terminate?, hangup?, interrupt?, quit?);
    drop(entered);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                _ = interrupt.recv() => {}
                _ = quit.recv() => {}
            }
            set.store(true, Ordering::Relaxed);
            sleep(GRACE).await;
            // The main thread waits for a lock, or reads a terminal that has gone meanwhile.
            let _ = ratatui::try_restore();
            process::exit(2);
        });
    })?;
    Ok(is_ended)
}

#[cfg(test)]
mod tests;
