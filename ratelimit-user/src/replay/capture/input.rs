//! Bytes of a capture, in parts of known lengths.

use std::io::{self, BufReader, Read};

/// Bytes that are read at once.
const AT_ONCE: usize = 1 << 18;

/// The order of the bytes in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Big,
    Little,
}

/// The bytes of a capture.
pub(super) struct Input<R> {
    reader: BufReader<R>,
    part: Vec<u8>,
    is_cut: bool,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(AT_ONCE, reader), part: Vec::new(), is_cut: false }
    }

    /// Returns the next bytes. None if the input ends before them.
    pub(super) fn array<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        let is_whole = fill(&mut self.reader, &mut bytes, &mut self.is_cut)?;
        Ok(is_whole.then_some(bytes))
    }

    /// Returns the next `length` bytes, which belong to something that has begun. The caller bounds the length.
    pub(super) fn rest(&mut self, length: usize) -> io::Result<Option<&[u8]>> {
        self.part.resize(length, 0);
        let is_whole = fill(&mut self.reader, &mut self.part, &mut self.is_cut)?;
        self.is_cut |= !is_whole;
        Ok(is_whole.then_some(&self.part))
    }

    /// Skips the next bytes, which belong to something that has begun. Returns whether they are there.
    pub(super) fn skip(&mut self, length: u64) -> io::Result<bool> {
        let skipped = io::copy(&mut self.reader.by_ref().take(length), &mut io::sink())?;
        self.is_cut |= skipped != length;
        Ok(skipped == length)
    }

    /// Returns whether the input has ended within something.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Fills a buffer. Returns false if the input ends before, and records whether it does so within these bytes.
fn fill(reader: &mut impl Read, mut buffer: &mut [u8], is_cut: &mut bool) -> io::Result<bool> {
    let all = buffer.len();
    while !buffer.is_empty() {
        match reader.read(buffer) {
            Ok(0) => {
                *is_cut |= buffer.len() != all;
                return Ok(false);
            }
            Ok(read) => buffer = buffer.get_mut(read..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

impl Order {
    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Big => u16::from_be_bytes(bytes),
            Self::Little => u16::from_le_bytes(bytes),
        }
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Big => u32::from_be_bytes(bytes),
            Self::Little => u32::from_le_bytes(bytes),
        }
    }

    pub(super) fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Big => u64::from_be_bytes(bytes),
            Self::Little => u64::from_le_bytes(bytes),
        }
    }
}

/// The fields of a part, from its beginning on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) left: &'a [u8],
    pub(super) order: Order,
}

impl<'a> Fields<'a> {
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(|bytes| self.order.u16(bytes))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(|bytes| self.order.u32(bytes))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| self.order.u64(bytes))
    }

    /// Takes so many bytes.
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, left) = self.left.split_at_checked(length)?;
        self.left = left;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, left) = self.left.split_first_chunk()?;
        self.left = left;
        Some(*bytes)
    }
}
