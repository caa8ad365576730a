//! The task that begins and ends limits in the kernel, one change at a time. It waits for the lock of the instance on a
//! thread of its own, so applications are answered meanwhile.

use std::{
    iter,
    path::{Path, PathBuf},
    sync::MutexGuard,
    time::Duration,
};

use ratelimit_base::notify::journal::{Level, say};
use ratelimit_dataplane::Error;
use ratelimit_protocol::stops::{End, Place, Reason};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{
    desk::Desk,
    in_force::{Begin, refused},
    judge::SparedChange,
    kernel,
    ledger::Ledger,
};

/// Limits in one change.
const MOST: usize = 100;
/// Time between two looks at ends.
const STEP: Duration = Duration::from_secs(1);
/// Failures in a row after which the operator is told. An instance that is attached or detached at this time is none.
const FAILURES: u32 = 3;
/// Time until rules that have ended are deleted. So a program that tells services apart is not replaced each time.
const CLEAN: Duration = Duration::from_secs(60);

/// The task.
pub(super) struct Writer {
    pins: PathBuf,
    desk: Desk,
    /// The generation of rules with which all limits stood.
    seen: Option<u32>,
    /// The change of spared addresses with which all limits stood.
    checked: SparedChange,
    /// When rules that have ended are to be deleted.
    clean: Option<Instant>,
    /// Failures in a row to end limits.
    failures: u32,
}

impl Writer {
    pub(super) fn of(pins: &Path, desk: &Desk) -> Self {
        Self { pins: pins.to_owned(), desk: desk.clone(), seen: None, checked: (0, 0), clean: None, failures: 0 }
    }

    /// Works until no limit can begin any more.
    pub(super) async fn run(mut self, mut begins: UnboundedReceiver<Begin>) {
        let mut steps = interval(STEP);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = steps.tick() => self.step().await,
                begin = begins.recv() => {
                    let Some(begin) = begin else { return };
                    let mut batch = vec![begin];
                    while batch.len() < MOST && let Ok(begin) = begins.try_recv() {
                        batch.push(begin);
                    }
                    self.begin(batch).await;
                }
            }
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.desk.lock()
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let pins = self.pins.clone();
        spawn_blocking(move || work(&pins)).await.unwrap_or_else(|_| Err(Error::NotAttached(self.pins.clone())))
    }

    async fn begin(&mut self, batch: Vec<Begin>) {
        self.leave_none_behind().await;
        if !self.ledger().in_force.may_begin() {
            let why = "limits cannot begin now: the log of the daemon tells why".to_owned();
            return batch.into_iter().for_each(|begin| self.refuse(begin, Reason::Unknown, why.clone()));
        }
        let mut batch = self.not_spared(batch).await;
        if batch.is_empty() {
            return;
        }
        let places: Vec<_> = batch.iter().map(|begin| (begin.place, begin.end)).collect();
        match self.with(move |pins| kernel::set(pins, &places)).await {
            Ok(outcomes) => {
                for (begin, outcome) in batch.drain(..).zip(outcomes) {
                    match outcome {
                        Ok(()) => self.ledger().in_force.begun(begin),
                        Err((reason, why)) => self.refuse(begin, reason, why),
                    }
                }
                self.desk.note();
            }
            Err(error) => {
                let is_full =
                    matches!(error, Error::TooManyRules { .. } | Error::TooManyPolicies(_) | Error::Services(_));
                let reason = if is_full { Reason::TooMany } else { Reason::Unknown };
                batch.into_iter().for_each(|begin| self.refuse(begin, reason, error.to_string()));
            }
        }
    }

    /// Returns the limits that the host does not spare now. It may have changed since it was asked.
    async fn not_spared(&self, batch: Vec<Begin>) -> Vec<Begin> {
        let (judge, places) = (self.desk.judge(), batch.iter().map(|begin| begin.place).collect::<Vec<_>>());
        let look = move || places.iter().map(|place| judge.spares(place)).collect::<Vec<_>>();
        // A failure is one of the thread.
        let looked = spawn_blocking(look).await.unwrap_or_default();
        let looked = looked.into_iter().map(Some).chain(iter::repeat_with(|| None));
        let mut others = Vec::new();
        for (begin, spared) in batch.into_iter().zip(looked) {
            match spared {
                Some(Ok(None)) => others.push(begin),
                Some(Ok(Some(spared))) => self.refuse(begin, Reason::Spared, spared.to_string()),
                Some(Err(error)) => self.refuse(begin, Reason::Unknown, error.to_string()),
                None => self.refuse(begin, Reason::Unknown, "the daemon ends".to_owned()),
            }
        }
        others
    }

    fn refuse(&self, begin: Begin, reason: Reason, why: String) {
        let mut judge = self.ledger();
        judge.in_force.never_begun(begin.place, begin.end);
        judge.in_force.answer(begin.answer, refused(reason, why));
    }

    async fn step(&mut self) {
        self.leave_none_behind().await;
        if self.ledger().in_force.end_due() {
            self.clean.get_or_insert_with(|| Instant::now() + CLEAN);
        }
        self.end_spared().await;
        let begun = self.ledger().in_force.begun_places();
        if !begun.is_empty() {
            let seen = self.seen;
            // A change that is under way shows itself at the next step.
            if let Ok(Some((generation, standing))) = self.with(move |pins| kernel::standing(pins, seen, &begun)).await
            {
                self.seen = Some(generation);
                self.ledger().in_force.end_others(|place| standing.contains(&kernel::target(place)));
            }
        }
        if self.clean.is_some_and(|due| due <= Instant::now()) {
            self.clean = self.with(kernel::delete_ended).await.err().map(|_| Instant::now() + CLEAN);
        }
    }

    /// Ends limits of addresses that the host spares by now.
    async fn end_spared(&mut self) {
        if self.ledger().in_force.places().next().is_none() {
            return;
        }
        let (judge, checked) = (self.desk.judge(), self.checked);
        let Ok(Some((change, spared))) = spawn_blocking(move || judge.spared(checked)).await else { return };
        let places: Vec<Place> = spared.iter().map(|(place, _)| *place).collect();
        match self.with(move |pins| kernel::delete_these(pins, &places)).await {
            Ok(()) => {
                (self.checked, self.failures) = (change, 0);
                for (place, why) in spared {
                    self.ledger().in_force.end(place, End::Spared, Some(why.to_string()));
                }
                self.ledger().in_force.show();
            }
            Err(error) => self.warn(&error),
        }
    }

    fn warn(&mut self, error: &Error) {
        self.failures = self.failures.saturating_add(1);
        if self.failures == FAILURES {
            say(Level::Warning, &format!("limits of applications stay until their ends: {error}"));
        }
    }

    /// Deletes the limits of a daemon before, and all limits if the file wants none any more.
    async fn leave_none_behind(&mut self) {
        if !self.ledger().in_force.has_leftovers() {
            return;
        }
        match self.with(kernel::delete_all).await {
            Ok(()) => {
                self.ledger().in_force.end_all();
                (self.clean, self.failures) = (None, 0);
            }
            Err(error) => self.warn(&error),
        }
    }
}
