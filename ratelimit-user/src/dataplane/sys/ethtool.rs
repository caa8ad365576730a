//! What a driver says of its network card: name, queues, rings and offloads. Asked by ioctl and by name, so that the answer is that of this
//! network namespace; the sysfs that is mounted may show another one's.

use std::{io, os::fd::OwnedFd, ptr};

use rustix::{
    ioctl::{Opcode, Updater, ioctl},
    net::{AddressFamily, SocketType, socket},
};

use crate::dataplane::{Error, error::Tried as _};

// Numbers from the kernel's include/uapi/linux/sockios.h and ethtool.h.
const SIOCETHTOOL: Opcode = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_RINGS: u32 = 0x10;
const GET_STRINGS: u32 = 0x1b;
const GET_SET_SIZES: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const GET_CHANNELS: u32 = 0x3c;
/// The set of strings that are names of features.
const FEATURES: u32 = 4;
/// Bytes of a name.
const NAME: usize = 32;

/// One interface's driver.
pub struct Ethtool {
    socket: OwnedFd,
    name: [u8; 16],
}

/// Receive queues. Either has queues of its own, or shares them with sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Queues that only receive, and the most that there can be.
    pub receiving: (u32, u32),
    /// Queues that receive and send, and the most that there can be.
    pub combined: (u32, u32),
}

/// Places for packets in each receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// As many as there are.
    pub now: u32,
    /// The most that there can be.
    pub most: u32,
}

/// Something that the card or its driver does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// Whether it does so.
    pub is_on: bool,
    /// Whether that can be changed.
    pub can_change: bool,
}

impl Ethtool {
    /// Asks about the interface with this name.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where there is no socket to be had.
    pub fn of(interface: &str) -> Result<Self, Error> {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).tried("cannot ask drivers")?;
        let mut name = [0; 16];
        // The last byte stays zero: longer names do not exist.
        for (place, byte) in name.iter_mut().take(15).zip(interface.bytes()) {
            *place = byte;
        }
        Ok(Self { socket, name })
    }

    /// Name of the driver. Nothing where it does not say.
    #[must_use]
    pub fn driver(&self) -> Option<String> {
        let mut answer = [0; 49];
        self.ask(GET_DRIVER, &mut answer).ok()?;
        Some(text(answer.get(1..1 + NAME / 4)?)).filter(|name| !name.is_empty())
    }

    /// Its receive queues. Nothing where it does not say.
    #[must_use]
    pub fn channels(&self) -> Option<Channels> {
        let mut answer = [0; 9];
        self.ask(GET_CHANNELS, &mut answer).ok()?;
        let [_, most_receiving, _, _, most_combined, receiving, _, _, combined] = answer;
        Some(Channels { receiving: (receiving, most_receiving), combined: (combined, most_combined) })
    }

    /// The rings of its receive queues. Nothing where it does not say.
    #[must_use]
    pub fn rings(&self) -> Option<Rings> {
        let mut answer = [0; 9];
        self.ask(GET_RINGS, &mut answer).ok()?;
        let [_, most, _, _, _, now, ..] = answer;
        Some(Rings { now, most })
    }

    /// The feature with this name, such as `rx-lro`. Nothing where the kernel knows none.
    #[must_use]
    pub fn feature(&self, name: &str) -> Option<Feature> {
        // The mask of sets that are asked for, and the size of that one.
        let mut sizes = [0, 0, 1 << FEATURES, 0, 0];
        self.ask(GET_SET_SIZES, &mut sizes).ok()?;
        let count = sizes[4];
        // The names of features belong to the kernel, so their number does not change.
        let mut names = vec![0; 3 + count as usize * NAME / 4];
        names[1] = FEATURES;
        names[2] = count;
        self.ask(GET_STRINGS, &mut names).ok()?;
        let mut all = names.get(3..)?.chunks_exact(NAME / 4);
        let bit = all.position(|entry| text(entry) == name)?;

        // For each 32 features: available, requested, active, never changed.
        let blocks = count.div_ceil(32);
        let mut features = vec![0; 2 + blocks as usize * 4];
        features[1] = blocks;
        self.ask(GET_FEATURES, &mut features).ok()?;
        let [available, _, active, never_changed] = *features.get(2..)?.chunks_exact(4).nth(bit / 32)? else {
            return None;
        };
        let is_set = |word: u32| word & (1 << (bit % 32)) != 0;
        Some(Feature { is_on: is_set(active), can_change: is_set(available) && !is_set(never_changed) })
    }

    /// Asks with a structure that consists of words, the first of which is the command.
    fn ask(&self, command: u32, words: &mut [u32]) -> io::Result<()> {
        /// `struct ifreq` with `ifr_data`.
        #[repr(C)]
        struct Request {
            name: [u8; 16],
            data: *mut u32,
            padding: [u8; 16],
        }
        if let Some(first) = words.first_mut() {
            *first = command;
        }
        let mut request = Request { name: self.name, data: ptr::from_mut(words).cast(), padding: [0; 16] };
        // SAFETY: the kernel reads a `struct ifreq` and writes to what it points to, as long as each command of this file says, which
        // both outlive the call.
        unsafe { ioctl(&self.socket, Updater::<SIOCETHTOOL, Request>::new(&mut request)) }?;
        Ok(())
    }
}

/// A text in words, up to its first zero.
fn text(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect::<Vec<_>>();
    String::from_utf8_lossy(&bytes).into_owned()
}
