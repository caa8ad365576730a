//! Reads the sources once per second.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_common::{
    buckets::bucket::{Bucket, Resolution},
    limits::policy::{ALLOWED_ID, DENIED_ID, FORCED_ID},
    reason::Reason,
};
use ratelimit_dataplane::{
    instance::read_only::View,
    readings::{
        gauges,
        peaks::{Counters, Observed, Peaks},
        tracked,
    },
    rules::resolve,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant as Moment, sleep_until},
};

/// The time between two readings.
const STEP: Duration = Duration::from_secs(1);

/// A reading takes at most this part of the time, so that the host is not slowed down.
const MOST_LOAD: u32 = 20;

/// What the readings found.
pub(super) struct Observation {
    pub(super) observed: Observed,
    /// The time between the first and the last reading.
    pub(super) time: Duration,
    /// Packets of sources that got no bucket meanwhile.
    pub(super) not_admitted: u64,
}

/// Reads all sources again and again, for this time or until Ctrl-C.
pub(super) async fn observe(pins: &Path, time: Duration) -> Result<Observation> {
    // Ctrl-C ends the observation, also during the first reading.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let view = View::open(pins)?;
    // Buckets come and go, so there are more sources than buckets.
    let most = gauges::max_sources(view.tables())? as usize * 2;
    let refused_before = gauges::packets_of(view.tables(), Reason::NotAdmitted)?;
    drop(view);
    let (begin, mut peaks) = (Instant::now(), Peaks::of(most));
    let (mut now, mut is_last) = (Duration::ZERO, false);
    loop {
        let refused = read(pins, now, &mut peaks)?;
        if is_last || now >= time {
            let not_admitted = refused.saturating_sub(refused_before);
            return Ok(Observation { observed: peaks.finish(), time: now, not_admitted });
        }
        let pause = STEP.max((begin.elapsed() - now) * MOST_LOAD).min(time.saturating_sub(now));
        tokio::select! {
            () = sleep_until(Moment::from_std(begin + now + pause)) => {}
            _ = interrupt.recv() => is_last = true,
        }
        now = begin.elapsed();
    }
}

/// Returns whether a limit decides about a source, or has banned it. An allow or a deny decides about others.
const fn is_limited(bucket: &Bucket) -> bool {
    !matches!(Resolution(bucket.resolution).policy(), ALLOWED_ID | DENIED_ID | FORCED_ID)
}

/// Adds a reading. Returns the packets that were not admitted so far.
fn read(pins: &Path, now: Duration, peaks: &mut Peaks) -> Result<u64> {
    let view = View::open(pins)?;
    peaks.add(now, |each| {
        tracked::each(view.tables(), |source, bucket| {
            if resolve::is_source(&source, &bucket) && is_limited(&bucket) {
                each(source, Counters { passed: bucket.passed(), refused: bucket.over_limit() });
            }
        })
    })?;
    Ok(gauges::packets_of(view.tables(), Reason::NotAdmitted)?)
}
