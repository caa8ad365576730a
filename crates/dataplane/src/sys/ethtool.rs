//! Reads a driver's name, queues, rings and offloads by ioctl. The answers are those of this network namespace. The
//! mounted sysfs may show another one.

use std::{io, os::fd::OwnedFd, ptr};

use rustix::{
    ioctl::{Opcode, Updater, ioctl},
    net::{AddressFamily, SocketType, socket},
};

use crate::{Error, error::Tried as _};

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

/// Receive queues. Some drivers share them with sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Queues that only receive, and the most possible.
    pub receiving: (u32, u32),
    /// Queues that receive and send, and the most possible.
    pub combined: (u32, u32),
    /// Queues that only send, and the most possible.
    pub sending: (u32, u32),
}

/// Descriptors in each receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// The present number.
    pub now: u32,
    /// The most possible.
    pub most: u32,
}

/// An offload of the card or its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// Whether it is on.
    pub is_on: bool,
    /// Whether it can be changed.
    pub can_change: bool,
}

impl Ethtool {
    /// Opens the interface with this name.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if no socket can be opened.
    pub fn of(interface: &str) -> Result<Self, Error> {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).tried("cannot ask drivers")?;
        let mut name = [0; 16];
        // The last byte stays zero: longer names do not exist.
        for (place, byte) in name.iter_mut().take(15).zip(interface.bytes()) {
            *place = byte;
        }
        Ok(Self { socket, name })
    }

    /// Returns the name of the driver, if the kernel says it.
    #[must_use]
    pub fn driver(&self) -> Option<String> {
        let mut answer = [0; 49];
        self.ask(GET_DRIVER, &mut answer).ok()?;
        Some(text(answer.get(1..1 + NAME / 4)?)).filter(|name| !name.is_empty())
    }

    /// Returns its receive queues, if the driver says them.
    #[must_use]
    pub fn channels(&self) -> Option<Channels> {
        let mut answer = [0; 9];
        self.ask(GET_CHANNELS, &mut answer).ok()?;
        let [_, most_receiving, most_sending, _, most_combined, receiving, sending, _, combined] = answer;
        let (receiving, sending) = ((receiving, most_receiving), (sending, most_sending));
        Some(Channels { receiving, sending, combined: (combined, most_combined) })
    }

    /// Returns the rings of its receive queues, if the driver says them.
    #[must_use]
    pub fn rings(&self) -> Option<Rings> {
        let mut answer = [0; 9];
        self.ask(GET_RINGS, &mut answer).ok()?;
        let [_, most, _, _, _, now, ..] = answer;
        Some(Rings { now, most })
    }

    /// Returns the offload with this name, such as `rx-lro`. None if the kernel has none.
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

    /// Executes a command. Its structure consists of words, and the command is the first.
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
        // SAFETY: the kernel reads a `struct ifreq` and writes to what it points to, as long as each command of this
        // file says, which both outlive the call.
        unsafe { ioctl(&self.socket, Updater::<SIOCETHTOOL, Request>::new(&mut request)) }?;
        Ok(())
    }
}

/// A text in words, up to its first zero.
fn text(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect::<Vec<_>>();
    String::from_utf8_lossy(&bytes).into_owned()
}
