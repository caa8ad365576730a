//! Headers of IPv4 and IPv6.

use super::{Generator, IPV4, IPV6, Kind, Length};

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
/// Hop-by-hop options are rare, since they are valid only as the first header.
const KINDS: [u8; 9] =
    [HOP_BY_HOP, ROUTING, ROUTING, FRAGMENT, FRAGMENT, AUTHENTICATION, AUTHENTICATION, DESTINATION, DESTINATION];

impl Generator {
    pub(super) fn ipv4(&mut self) {
        self.word(IPV4);
        self.kinds.add(Kind::Ipv4);
        let begin = self.frame.len();
        let options = if self.random.percent(20) { self.random.below(11) } else { 0 };
        if options > 0 {
            self.kinds.add(Kind::Ipv4Options);
        }
        let protocol = self.protocol(1);
        self.byte(0x45 + options as u8);
        self.bytes(1);
        self.word(0);
        self.bytes(2);
        let fragment = match self.random.below(100) {
            0..40 => 0,
            40..80 => 0x4000,
            80..90 => {
                self.kinds.add(Kind::Ipv4FirstFragment);
                0x2000
            }
            _ => {
                self.kinds.add(Kind::Ipv4LaterFragment);
                // Any offset, last fragment or not.
                self.random.among(&[0, 0x2000]) | (self.random.below(0x1fff) as u16 + 1)
            }
        };
        self.word(fragment);
        self.bytes(1);
        self.byte(protocol);
        // Checksum, source, destination.
        self.bytes(2 + 4 + 4 + 4 * options);
        self.payload(protocol);
        self.lengths.extend([Length::LowNibble(begin), Length::Word(begin + 2), Length::Word(begin + 2)]);
        self.set_word(begin + 2, self.frame.len() - begin);
    }

    pub(super) fn ipv6(&mut self) {
        self.word(IPV6);
        self.kinds.add(Kind::Ipv6);
        let begin = self.frame.len();
        let protocol = self.protocol(58);
        let class = self.random.below(16) as u8;
        self.byte(0x60 | class);
        self.bytes(3);
        self.word(0);
        let mut next_at = self.frame.len();
        self.byte(protocol);
        let hop_limit = self.random.among(&[255, 255, 64, 254, 0]);
        self.byte(hop_limit);
        if self.random.percent(20) {
            self.kinds.add(Kind::LinkLocal);
            // All of fe80::/10.
            self.byte(0xfe);
            let low = self.random.below(0x40) as u8;
            self.byte(0x80 | low);
            self.bytes(14);
        } else {
            self.byte(0x20);
            self.bytes(15);
        }
        self.bytes(16);
        let headers = self.headers();
        for count in 0..headers {
            let kind = if count == 0 && self.random.percent(30) { HOP_BY_HOP } else { self.random.among(&KINDS) };
            self.frame[next_at] = kind;
            next_at = self.frame.len();
            self.extension(kind, protocol);
        }
        let payload = self.frame.len();
        self.payload(protocol);
        let is_discovery = matches!(self.frame.get(payload), Some(133..=137)) && protocol == 58;
        if is_discovery && headers == 0 && hop_limit == 255 {
            self.kinds.add(Kind::NeighbourDiscovery);
        }
        self.lengths.extend([Length::Word(begin + 4); 2]);
        self.set_word(begin + 4, self.frame.len() - begin - 40);
    }

    /// Returns a random number of extension headers.
    fn headers(&mut self) -> usize {
        match self.random.below(100) {
            0..40 => 0,
            40..75 => self.random.below(3) + 1,
            75..90 => self.random.below(5) + 4,
            _ => {
                let headers = self.random.among(&[8, 8, 9, 9, 10]);
                if headers > 8 {
                    self.kinds.add(Kind::NineHeaders);
                }
                headers
            }
        }
    }

    /// Appends one extension header before `next`.
    fn extension(&mut self, kind: u8, next: u8) {
        self.byte(next);
        let units = match self.random.below(100) {
            0..70 => 0,
            70..96 => self.random.below(4),
            _ => self.random.below(32),
        };
        match kind {
            FRAGMENT => {
                // A reserved byte without meaning.
                self.bytes(1);
                let is_later = self.random.percent(25);
                let offset = if is_later { self.random.below(0x1fff) as u16 + 1 } else { 0 };
                let flags = self.random.below(8) as u16;
                self.word(offset << 3 | flags);
                self.bytes(4);
                self.kinds.add(if is_later { Kind::LaterFragment } else { Kind::FirstFragment });
            }
            AUTHENTICATION => {
                self.lengths.push(Length::Byte(self.frame.len()));
                self.byte(units as u8 + 1);
                self.bytes(10 + 4 * units);
                self.kinds.add(Kind::Authentication);
            }
            _ => {
                self.lengths.push(Length::Byte(self.frame.len()));
                self.byte(units as u8);
                self.bytes(6 + 8 * units);
                self.kinds.add(match kind {
                    HOP_BY_HOP => Kind::HopByHop,
                    ROUTING => Kind::Routing,
                    _ => Kind::Destination,
                });
            }
        }
    }
}
