//! The first of the buffers of a frame, which the program reads directly.

use core::ops::Deref;

use aya_ebpf::programs::XdpContext;

use crate::{
    bpf::settings,
    packet::{
        frame::{Packet, whole_length},
        headers::{Frame, Header},
    },
};

/// Bytes of a first buffer from which on its frame is measured at once. Shorter ones are usually the whole frame.
const MEASURED: u32 = 256;

/// A frame (kernel 5.18) whose first buffer is readable. All others may follow.
#[derive(Clone, Copy)]
pub struct FirstBuffer {
    packet: Packet,
    length: u32,
}

impl FirstBuffer {
    /// Returns the first buffer.
    ///
    /// The length of the whole frame needs a helper call, which short buffers skip while no limit counts bytes. The
    /// parser notices when such a frame lacks bytes.
    #[inline(always)]
    #[must_use]
    pub fn of(ctx: &XdpContext) -> Self {
        let packet = Packet::of(ctx);
        let is_measured = packet.length() >= MEASURED || settings::is_on(&settings::BYTES_ON);
        Self { packet, length: if is_measured { whole_length(ctx) } else { packet.length() } }
    }
}

impl Frame for FirstBuffer {
    #[inline(always)]
    fn read<T: Header>(&self, offset: usize) -> Option<impl Deref<Target = T>> {
        self.packet.header(offset)
    }

    #[inline(always)]
    fn length(&self) -> u32 {
        self.length
    }

    #[inline(always)]
    fn is_measured(&self) -> bool {
        self.length >= MEASURED || settings::is_on(&settings::BYTES_ON)
    }

    #[inline(always)]
    fn has_more(&self) -> bool {
        !self.is_measured() || self.length != self.packet.length()
    }

    #[inline(always)]
    fn in_loop(&self) -> Self {
        Self { packet: self.packet.in_loop(), ..*self }
    }
}
