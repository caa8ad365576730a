//! Captures: files in the formats pcap and pcapng, packet by packet. Whoever was captured can choose every byte of such a
//! file, so each length is bounded before it is used.

mod input;
pub(crate) mod link;
pub(crate) mod packet;
mod pcap;
mod pcapng;

use std::io::Read;

use self::{
    input::Input,
    packet::{Bad, CaptureError, Packet},
    pcap::Pcap,
    pcapng::PcapNg,
};

/// A capture that is read from its beginning to its end.
pub(crate) struct Capture<R> {
    input: Input<R>,
    format: Format,
    packets: u64,
}

enum Format {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

impl<R: Read> Capture<R> {
    /// Opens a capture.
    pub(crate) fn open(reader: R) -> Result<Self, CaptureError> {
        let mut input = Input::new(reader);
        let format = match input.array::<4>()? {
            Some(pcapng::SECTION) => PcapNg::open(&mut input).map(|format| format.map(Format::PcapNg)),
            Some(magic) => Pcap::open(magic, &mut input).map(|format| format.map(Format::Pcap)),
            None if input.is_cut() => Ok(None),
            None => return Err(CaptureError::Empty),
        };
        match format {
            Ok(Some(format)) => Ok(Self { input, format, packets: 0 }),
            Err(Bad::Io(error)) => Err(error.into()),
            Ok(None) | Err(_) => Err(CaptureError::NoCapture),
        }
    }

    /// Returns the next packet. None at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        let after = self.packets;
        let packet = match &mut self.format {
            Format::Pcap(format) => format.next(&mut self.input),
            Format::PcapNg(format) => format.next(&mut self.input),
        };
        self.packets += 1;
        packet.map_err(|bad| match bad {
            Bad::Wrong(what) => CaptureError::Damaged { after, what },
            Bad::Link(number) => CaptureError::Link(number),
            Bad::Io(error) => error.into(),
        })
    }

    /// Returns whether the capture ends within a packet.
    pub(crate) fn is_cut(&self) -> bool {
        self.input.is_cut()
    }
}

#[cfg(test)]
mod tests;
