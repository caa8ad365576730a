//! Payloads of IP.

use super::{Generator, Kind, Length};

/// Ports with service rules, and some without.
const PORTS: [u16; 8] = [443, 443, 53, 53, 9, 9, 80, 0];

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

impl Generator {
    /// Returns a protocol. ICMP is mostly of the same family.
    pub(super) fn protocol(&mut self, icmp: u8) -> u8 {
        match self.random.below(100) {
            0..30 => 6,
            30..52 => 17,
            52..62 => 132,
            62..80 => icmp,
            80..84 => 47,
            84..87 => 50,
            87..90 => self.random.among(&[4, 41]),
            90..95 => self.random.among(&[200, 59, 51, 2, 58, 1, 135]),
            _ => self.random.next() as u8,
        }
    }

    pub(super) fn payload(&mut self, protocol: u8) {
        match protocol {
            6 => self.tcp(),
            17 => self.udp(),
            132 => {
                self.ports();
                self.bytes(8);
                self.kinds.add(Kind::Sctp);
            }
            1 | 58 => {
                let any = self.random.next() as u8;
                let message = self.random.among(&[128, 8, 13, 133, 134, 135, 136, 137, 132, 138, any]);
                self.byte(message);
                self.byte(0);
                self.bytes(6);
                self.kinds.add(Kind::Icmp);
            }
            47 => self.kinds.add(Kind::Gre),
            50 => self.kinds.add(Kind::Esp),
            4 | 41 => self.kinds.add(Kind::Ipip),
            51 => self.authenticated(),
            _ => self.kinds.add(Kind::OtherProtocol),
        }
        self.data();
    }

    fn ports(&mut self) {
        self.bytes(2);
        let any = self.random.next() as u16;
        let port = if self.random.percent(75) { self.random.among(&PORTS) } else { any };
        self.word(port);
    }

    fn tcp(&mut self) {
        self.ports();
        self.bytes(8);
        let options = if self.random.percent(30) { self.random.below(11) } else { 0 };
        self.lengths.push(Length::HighNibble(self.frame.len()));
        self.byte((5 + options as u8) << 4);
        let any = self.random.next() as u8;
        let flags = self.random.among(&[SYN, SYN, SYN, SYN | 0xc0, SYN | ACK, ACK, ACK | 1, 4, any]);
        self.byte(flags);
        self.bytes(6 + 4 * options);
        self.kinds.add(Kind::Tcp);
        if flags & (SYN | ACK) == SYN {
            self.kinds.add(Kind::NewConnection);
        }
    }

    fn udp(&mut self) {
        self.ports();
        self.lengths.push(Length::Word(self.frame.len()));
        self.word(8);
        self.bytes(2);
        self.kinds.add(Kind::Udp);
    }

    /// Appends an authentication header as payload of IPv4, followed by UDP.
    fn authenticated(&mut self) {
        self.byte(17);
        self.lengths.push(Length::Byte(self.frame.len()));
        self.byte(1);
        self.bytes(10);
        self.udp();
    }
}
