//! Raw bytes of HTTP/1 and frames of HTTP/2, also from callers that read nothing.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use anyhow::{Result, ensure};
use ratelimit_tests::generate::random::Random;

use super::{mutate::mutated, server::Server, target::Target};

/// Callers that have sent something, and read nothing.
const UNREAD: usize = 200;
/// The time in which the server takes bytes, or sends some.
const TURN: Duration = Duration::from_millis(5);
/// Inputs between two looks at whether another caller is answered.
const CHECKED: u64 = 256;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The longest frame that a server may send.
const FRAME: u32 = 16 << 10;

/// The version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

pub(super) struct RawBytes<'a> {
    server: &'a Server,
    socket: PathBuf,
    version: Version,
    corpus: Vec<Vec<u8>>,
    unread: VecDeque<UnixStream>,
    number: u64,
}

impl<'a> RawBytes<'a> {
    pub(super) fn new(server: &'a Server, version: Version) -> Self {
        let (socket, corpus) = match version {
            Version::Http1 => {
                let calls = include_str!("../../../../data/requests/call.txt");
                (&server.http, calls.lines().map(|line| line.replace('|', "\r\n").into_bytes()).collect())
            }
            Version::Http2 => {
                let blocks = include_str!("../../../../data/requests/frames.txt");
                (&server.grpc, blocks.lines().map(bytes).collect())
            }
        };
        Self { server, socket: socket.clone(), version, corpus, unread: VecDeque::new(), number: 0 }
    }

    /// Returns what one caller sends.
    fn input(&self, random: &mut Random) -> Vec<u8> {
        let count = random.among(&[1, 2, 5, 20, 300]);
        match self.version {
            // Calls in a row, with bytes between them that belong to none.
            Version::Http1 => (0..count).flat_map(|_| self.changed(random)).collect(),
            Version::Http2 => {
                let mut input =
                    if random.percent(95) { PREFACE.to_vec() } else { mutated(&[PREFACE.to_vec()], random) };
                input.extend(frame(4, 0, 0, &[]));
                let mut stream = 1;
                for _ in 0..count {
                    let payload = self.changed(random);
                    let kind = random.among(&[0, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 10, 255]);
                    let any = random.next() as u8;
                    let flags = random.among(&[0, 1, 4, 4, 5, 5, 5, 8, 0x20, any]);
                    let other = random.next() as u32;
                    let number = random.among(&[0, 1, stream, stream, stream, stream, other]);
                    input.extend(frame(kind, flags, number, &payload));
                    stream += random.among(&[0, 1, 2, 2, 2, 2, 2]);
                }
                if random.percent(10) { mutated(&[input], random) } else { input }
            }
        }
    }

    fn changed(&self, random: &mut Random) -> Vec<u8> {
        if random.percent(50) {
            self.corpus[random.below(self.corpus.len())].clone()
        } else {
            mutated(&self.corpus, random)
        }
    }
}

/// Returns the bytes of hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap_or_default();
    (0..digits.len() / 2).map(|number| pair(2 * number)).collect()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads what the server sends until it pauses.
fn answer(stream: &mut UnixStream) -> Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut part = [0; 4_096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return Ok(answer),
            Ok(count) => answer.extend(&part[..count]),
            Err(error) => {
                let kinds = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::ConnectionReset];
                ensure!(kinds.contains(&error.kind()), "{error}");
                return Ok(answer);
            }
        }
    }
}

/// Fails if an answer consists of anything but frames.
fn check_frames(mut answer: &[u8]) -> Result<()> {
    while let Some((head, rest)) = answer.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        ensure!(length <= FRAME && head[3] <= 9, "a frame of {length} bytes and the kind {}", head[3]);
        answer = rest.get(length as usize..).unwrap_or_default();
    }
    Ok(())
}

impl Target for RawBytes<'_> {
    fn next(&mut self, random: &mut Random) -> Result<&'static str> {
        let input = self.input(random);
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_write_timeout(Some(TURN))?;
        stream.set_read_timeout(Some(TURN))?;
        let is_taken = stream.write_all(&input).is_ok();
        self.number += 1;
        if self.number.is_multiple_of(CHECKED) {
            self.server.check()?;
        }
        if random.percent(60) {
            self.unread.push_back(stream);
            if self.unread.len() > UNREAD {
                self.unread.pop_front();
            }
            return Ok(if is_taken { "unread" } else { "unread, and not taken" });
        }
        let answer = answer(&mut stream)?;
        match self.version {
            _ if answer.is_empty() => return Ok("no answer"),
            Version::Http1 => ensure!(answer.starts_with(b"HTTP/1."), "{:?}", String::from_utf8_lossy(&answer)),
            Version::Http2 => check_frames(&answer)?,
        }
        Ok("answered")
    }
}
