//! Generated frames of all kinds from a seed, some of them broken.

mod kind;
mod mutate;
mod network;
mod random;
mod transport;

pub use kind::{Kind, Kinds};
use random::Random;

/// Maximum frame length, since the kernel would split longer frames into several buffers.
const LONGEST: usize = 3_400;

/// Generator of tags, network and transport headers, which records the position of length fields.
pub struct Generator {
    random: Random,
    frame: Vec<u8>,
    lengths: Vec<Length>,
    kinds: Kinds,
}

/// Position of a length field.
#[derive(Debug, Clone, Copy)]
enum Length {
    Word(usize),
    Byte(usize),
    LowNibble(usize),
    HighNibble(usize),
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// A non-standard tag type, and MACsec, which may encrypt the rest.
const OTHER_TAG: u16 = 0x9100;
const MACSEC: u16 = 0x88e5;

impl Generator {
    /// Creates a generator. The same seed gives the same frames.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), frame: Vec::new(), lengths: Vec::new(), kinds: Kinds::default() }
    }

    /// Generates the next frame and returns its kinds, from before it was broken.
    pub fn make(&mut self) -> (&[u8], Kinds) {
        self.frame.clear();
        self.lengths.clear();
        self.kinds = Kinds::default();
        self.link();
        self.frame.truncate(LONGEST);
        if self.random.percent(45) {
            for _ in 0..self.random.among(&[1, 1, 2, 3]) {
                self.mutate();
            }
        }
        self.frame.truncate(LONGEST);
        (&self.frame, self.kinds)
    }

    fn link(&mut self) {
        self.bytes(12);
        let tags = self.random.among(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3]);
        for _ in 0..tags {
            let ether_type = self.random.among(&TAGS);
            self.word(ether_type);
            self.bytes(2);
        }
        self.kinds.add([Kind::Untagged, Kind::Tagged, Kind::TaggedTwice, Kind::TaggedThrice][tags]);
        match self.random.below(100) {
            0 => {
                self.word(OTHER_TAG);
                self.bytes(2);
                self.kinds.add(Kind::OtherTag);
            }
            1 => self.macsec(),
            _ => {}
        }
        match self.random.below(100) {
            0..42 => self.ipv4(),
            42..92 => self.ipv6(),
            92..96 => self.arp(),
            _ => {
                let any = self.random.next() as u16;
                let ether_type = self.random.among(&[0x88cc, 0x8035, 0x8847, 0x0600, 0x05dc, 0, 0xffff, any, any]);
                self.word(ether_type);
                self.data();
                self.kinds.add(Kind::OtherType);
            }
        }
    }

    /// Appends a MACsec tag of an encrypted or plain packet.
    fn macsec(&mut self) {
        self.word(MACSEC);
        let flags = self.random.among(&[0x00, 0x20, 0x0c, 0x2c]);
        self.byte(flags);
        self.byte(0);
        self.bytes(4);
        if flags & 0x20 != 0 {
            self.bytes(8);
        }
        self.kinds.add(Kind::Macsec);
    }

    fn arp(&mut self) {
        self.word(ARP);
        self.frame.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        self.bytes(20);
        self.kinds.add(Kind::Arp);
    }

    fn byte(&mut self, byte: u8) {
        self.frame.push(byte);
    }

    fn word(&mut self, word: u16) {
        self.frame.extend_from_slice(&word.to_be_bytes());
    }

    /// Appends random bytes.
    fn bytes(&mut self, count: usize) {
        for _ in 0..count {
            self.frame.push(self.random.next() as u8);
        }
    }

    /// Appends a payload, mostly a short one.
    fn data(&mut self) {
        let count = match self.random.below(100) {
            0..30 => 0,
            30..97 => self.random.below(40),
            _ => self.random.below(1_400),
        };
        // The content is arbitrary but must not look like valid header fields everywhere.
        let filler = self.random.next() as u8;
        self.frame.resize(self.frame.len() + count, filler);
    }

    fn set_word(&mut self, at: usize, word: usize) {
        self.frame[at..at + 2].copy_from_slice(&(word as u16).to_be_bytes());
    }
}
