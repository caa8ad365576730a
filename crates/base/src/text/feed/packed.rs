//! What a list is packed in: gzip, and the encoding of its text.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::{
    content::{FeedError, MOST_BYTES},
    json, lines,
    sink::Sink,
};

/// The bytes at the beginning that tell what it is.
const HEAD: u64 = 512;

/// How files of other kinds begin, and what they are.
const OTHERS: [(&[u8], &str); 7] = [
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\xfd7zXZ\0", "packed by xz"),
    (b"BZh", "packed by bzip2"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (GZIP, "packed by gzip twice"),
    (b"%PDF", "a PDF document"),
];

const GZIP: &[u8] = b"\x1f\x8b";
/// The end of the head of a tar archive.
const TAR: &[u8] = b"ustar";
const TAR_AT: usize = 257;

/// Reads a list.
pub(super) fn read(input: impl BufRead, sink: &mut Sink) -> Result<(), FeedError> {
    let (head, rest) = head(input.take(MOST_BYTES))?;
    if !head.starts_with(GZIP) {
        return plain(head, rest, sink);
    }
    let input = MultiGzDecoder::new(Cursor::new(head).chain(rest));
    let input = BufReader::with_capacity(1 << 16, input).take(MOST_BYTES);
    head_of_packed(input).and_then(|(head, rest)| plain(head, rest, sink)).map_err(|error| match error {
        FeedError::Io(error) if is_of_format(&error) => FeedError::Gzip(error),
        other => other,
    })
}

fn head_of_packed<R: BufRead>(input: io::Take<R>) -> Result<(Vec<u8>, io::Take<R>), FeedError> {
    Ok(head(input)?)
}

fn head<R: BufRead>(mut input: io::Take<R>) -> io::Result<(Vec<u8>, io::Take<R>)> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD).read_to_end(&mut head)?;
    Ok((head, input))
}

/// Reads a list that is not packed.
fn plain(mut head: Vec<u8>, mut rest: io::Take<impl BufRead>, sink: &mut Sink) -> Result<(), FeedError> {
    if let Some((_, kind)) = OTHERS.iter().find(|(begin, _)| head.starts_with(begin)) {
        return Err(FeedError::Packed(kind));
    }
    if head.get(TAR_AT..).is_some_and(|end| end.starts_with(TAR)) {
        return Err(FeedError::Packed("a tar archive"));
    }
    if let Some(encoding) = encoding(&head) {
        return Err(FeedError::Encoding(encoding));
    }
    if head.starts_with("\u{feff}".as_bytes()) {
        head.drain(.."\u{feff}".len());
    }
    let is_json = is_json(&head);
    let input = Cursor::new(head).chain(rest.by_ref());
    let outcome = if is_json { json::read(input, sink) } else { lines::read(input, sink) };
    if rest.limit() == 0 { Err(FeedError::Bytes) } else { outcome }
}

/// Returns the encoding of a text that is not in UTF-8, nor in an encoding with one byte per character.
fn encoding(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] | [0, 0, 0, 1..=255, ..] | [1..=255, 0, 0, 0, ..] => {
            Some("UTF-32")
        }
        [0xff, 0xfe, ..] | [1..=255, 0, 1..=255, 0, ..] => Some("UTF-16LE"),
        [0xfe, 0xff, ..] | [0, 1..=255, 0, 1..=255, ..] => Some("UTF-16BE"),
        _ => None,
    }
}

/// Returns whether a text begins like JSON, and not like an address in brackets or the heading of a section.
fn is_json(head: &[u8]) -> bool {
    let mut bytes = head.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
    matches!(
        (bytes.next(), bytes.next()),
        (Some(b'['), Some(b'"' | b'{' | b'[' | b']')) | (Some(b'{'), Some(b'"' | b'}'))
    )
}

/// Returns whether an error tells of the format.
fn is_of_format(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof)
}
