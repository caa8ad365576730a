//! Judges a capture.

use std::{
    io::Read,
    net::IpAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ratelimit_daemon::config::Config;
use ratelimit_dataplane::{self as dataplane, sys::features, trial::Trial};

use super::{
    capture::{Capture, packet::CaptureError},
    clock::Clock,
    frame::{Frame, Known},
    headers::Needed,
    receivers::Receivers,
    rows::Rows,
    rules,
    tally::Tally,
};

/// The longest Ethernet frame of the usual MTU, with two tags.
const LONGEST: u64 = 1_522;

/// The host on whose interface the packets were captured.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// Packets per second of the interface, 0 for none.
    pub(crate) capacity: u64,
    /// Addresses of the host.
    pub(crate) addresses: Vec<IpAddr>,
}

/// What became of the packets of a capture.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) tally: Tally,
    /// Time of the first packet that has one, in nanoseconds since 1970.
    pub(crate) start: Option<u64>,
    /// Time from the first packet to the last.
    pub(crate) span: Duration,
    /// Packets that the host has sent. They are not judged.
    pub(crate) outgoing: u64,
    /// Packets that are too short for the kernel to run a program. They are not judged.
    pub(crate) short: u64,
    /// Packets of which too few bytes were captured to know their sender. They are not judged.
    pub(crate) without_addresses: u64,
    /// Packets of which too few bytes were captured to know what the rules need. They are not judged.
    pub(crate) without_headers: u64,
    /// Packets that are longer than the usual MTU allows.
    pub(crate) long: u64,
    /// Packets that are longer than the kernel gives to a program here. They count as shorter.
    pub(crate) shortened: u64,
    /// Packets without a time.
    pub(crate) without_time: u64,
    /// Whether the first judged packet had no time. Rules that end are then judged as if the capture began now.
    pub(crate) begins_now: bool,
    /// Packets that passed over limits in shadow.
    pub(crate) in_shadow: u64,
    /// How often the clock of the capture was set back.
    pub(crate) set_back: u64,
    /// Whether the capture ends within a packet.
    pub(crate) is_cut: bool,
    /// Who has received packets for which the capture does not tell whether the host has sent them.
    pub(crate) receivers: Receivers,
}

/// Why a capture cannot be judged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JudgeError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Program(#[from] dataplane::Error),
}

/// Judges all packets of a capture by a file.
pub(crate) fn judge<R: Read>(capture: &mut Capture<R>, config: &Config, host: &Host) -> Result<Judged, JudgeError> {
    let (mut judged, mut clock) = (Judged::default(), Clock::default());
    let mut frame = Frame::new(features::several_buffers().unwrap_or(true), Needed::of(config));
    let mut loaded = None;
    while let Some(packet) = capture.next()? {
        let (known, after) = (frame.set(&packet), clock.time(packet.time));
        judged.start = judged.start.or(packet.time);
        judged.without_time += u64::from(packet.time.is_none());
        if !judged.can_be_judged(&known, host) {
            continue;
        }
        let (trial, rows) = match &mut loaded {
            Some(loaded) => loaded,
            empty => {
                judged.begins_now = judged.start.is_none();
                empty.insert(load(config, judged.start.unwrap_or_else(now), host.capacity)?)
            }
        };
        let drop = trial.decide(known.first, frame.bytes(), after)?;
        let (row, bytes) = (known.addresses.map(|[sender, _]| rows.of_address(sender)), frame.bytes().len() as u64);
        judged.long += u64::from(known.length > LONGEST);
        judged.shortened += u64::from(known.length > bytes);
        judged.tally.add(row, bytes, drop);
    }
    judged.in_shadow = loaded.map_or(Ok(0), |(trial, _)| trial.in_shadow())?;
    (judged.span, judged.set_back, judged.is_cut) = (clock.span(), clock.set_back, capture.is_cut());
    Ok(judged)
}

/// Loads the program with the rules of a file at a time in nanoseconds since 1970.
fn load(config: &Config, wall: u64, capacity: u64) -> Result<(Trial, Rows), dataplane::Error> {
    let rules = rules::at(config, wall, capacity);
    let trial = Trial::load(&config.requested, &rules, wall)?;
    let rows = Rows::of(&rules, trial.ipv6_prefix());
    Ok((trial, rows))
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

impl Judged {
    /// Returns whether a packet can be judged, and counts it if not.
    fn can_be_judged(&mut self, packet: &Known, host: &Host) -> bool {
        let is_own = || packet.addresses.is_some_and(|[sender, _]| host.addresses.contains(&sender));
        let why_not = if packet.is_outgoing == Some(true) || packet.is_outgoing.is_none() && is_own() {
            &mut self.outgoing
        } else if !packet.is_long_enough {
            &mut self.short
        } else if packet.has_lost_addresses {
            &mut self.without_addresses
        } else if packet.has_lost_headers {
            &mut self.without_headers
        } else {
            if let (None, Some(addresses)) = (packet.is_outgoing, packet.addresses) {
                self.receivers.add(addresses);
            }
            return true;
        };
        *why_not += 1;
        false
    }
}
