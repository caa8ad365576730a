//! Judges a capture.

use std::{io::Read, time::Duration};

use super::{
    capture::{Capture, packet::CaptureError},
    clock::Clock,
    frame::Frame,
    rules,
    tally::Tally,
};
use crate::{
    config::Config,
    dataplane::{self, sys::features, trial::Trial},
    text::prefix::Prefix,
};

/// The longest Ethernet frame of the usual MTU, with two tags.
const LONGEST: u64 = 1_522;

/// What became of the packets of a capture.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) tally: Tally,
    /// Time of the first packet, in nanoseconds since 1970.
    pub(crate) start: Option<u64>,
    /// Time from the first packet to the last.
    pub(crate) span: Duration,
    /// Packets that the host has sent. They are not judged.
    pub(crate) outgoing: u64,
    /// Packets that are too short for the kernel to run a program. They are not judged.
    pub(crate) short: u64,
    /// Packets that are longer than the usual MTU allows.
    pub(crate) long: u64,
    /// Packets that passed over limits in shadow.
    pub(crate) in_shadow: u64,
    /// How often the clock of the capture was set back.
    pub(crate) set_back: u64,
    /// Whether the capture ends within a packet.
    pub(crate) is_cut: bool,
}

/// Why a capture cannot be judged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JudgeError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Program(#[from] dataplane::Error),
}

/// Judges all packets of a capture by a file, on an interface with this capacity: packets per second, 0 for none.
pub(crate) fn judge<R: Read>(capture: &mut Capture<R>, config: &Config, capacity: u64) -> Result<Judged, JudgeError> {
    let (mut judged, mut clock) = (Judged::default(), Clock::default());
    let (mut frame, mut trial) = (Frame::new(features::several_buffers().unwrap_or(true)), None);
    while let Some(packet) = capture.next()? {
        let (known, after) = (frame.set(&packet), clock.time(packet.time));
        judged.start = judged.start.or(packet.time);
        if known.is_outgoing {
            judged.outgoing += 1;
            continue;
        }
        if !known.is_long_enough {
            judged.short += 1;
            continue;
        }
        judged.long += u64::from(known.length > LONGEST);
        let trial = match &mut trial {
            Some(trial) => trial,
            empty => {
                let wall = judged.start.unwrap_or(0);
                empty.insert(Trial::load(&config.requested, &rules::at(config, wall, capacity), wall)?)
            }
        };
        let source = known.sender.map(|sender| trial.payer(&Prefix::host(sender))).transpose()?;
        let drop = trial.decide(known.first, frame.bytes(), after)?;
        judged.tally.add(source, known.length, drop);
    }
    judged.in_shadow = trial.map_or(Ok(0), |trial| trial.in_shadow())?;
    (judged.span, judged.set_back, judged.is_cut) = (clock.span(), clock.set_back, capture.is_cut());
    Ok(judged)
}
