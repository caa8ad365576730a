//! The lines of a list.

use std::{
    io::BufRead,
    net::{IpAddr, Ipv6Addr},
};

use memchr::memchr2;

use super::{
    comments::Comments,
    content::{FeedError, LineError, MOST_LINES},
    entry,
    looks::Looks,
    sink::Sink,
    words::{excluding, words},
};
use crate::text::prefix::{Prefix, PrefixError};

/// The most bytes of a line.
pub(super) const MOST_BYTES: usize = 4_096;

/// Reads a list with one entry per line.
pub(super) fn read(input: impl BufRead, sink: &mut Sink) -> Result<(), FeedError> {
    let mut lines = Lines { input, line: Vec::new(), is_long: false, is_after_return: false };
    let (mut comments, mut looks, mut section) = (Comments::default(), Looks::default(), Section::default());
    let (mut quotes, mut number) = (Quotes::default(), 0);
    while lines.next()? {
        number += 1;
        if number > MOST_LINES {
            return Err(FeedError::Lines);
        }
        sink.check(|lines| looks.names(lines))?;
        if lines.is_long {
            sink.bad(number, format!("is longer than {MOST_BYTES} bytes"));
            continue;
        }
        if !comments.is_open()
            && !quotes.is_open
            && section.is_used()
            && let Some((prefix, given)) = plain(&lines.line)
        {
            sink.take_prefix(number, prefix, given, || String::from_utf8_lossy(&lines.line).trim().to_owned());
            continue;
        }
        let text = String::from_utf8_lossy(&lines.line);
        let line = comments.without(&text, number);
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if is_markup(line) && sink.is_without_prefix() {
            return Err(FeedError::Page);
        }
        if line.starts_with("create ") && line.split_whitespace().any(|word| matches!(word, "netmask" | "bitmask")) {
            return Err(FeedError::Netmask);
        }
        if quotes.see(line) {
            sink.refuse(number, line, &LineError::Quote);
            continue;
        }
        section.see(line);
        match entry::read(line).and_then(|entry| section.judge(entry)) {
            Ok(entry) => {
                looks.entry(&entry);
                sink.take(number, line, &entry.items);
            }
            Err(error) => {
                if matches!(error, LineError::Prefix(PrefixError::Address)) {
                    looks.without(line);
                }
                // The line says already what is no address.
                let is_alone = matches!(error, LineError::Near(_)) && words(line).nth(1).is_none();
                sink.refuse(number, line, if is_alone { &LineError::Prefix(PrefixError::Address) } else { &error });
            }
        }
    }
    if let Some(begin) = comments.begin() {
        sink.bad(begin, "the comment that begins here has no end, so nothing behind it is read".to_owned());
    }
    looks.check(sink)
}

/// Reads a line that has nothing but a prefix, which is most of them. Returns its address if that has bits beyond it.
fn plain(line: &[u8]) -> Option<(Prefix, Option<IpAddr>)> {
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'/');
    let line = line.trim_ascii();
    if !line.iter().all(is_part) {
        return None;
    }
    match std::str::from_utf8(line).ok()?.parse() {
        Ok(prefix) => Some((prefix, None)),
        Err(PrefixError::HostBits(prefix, address)) => Some((prefix, Some(address))),
        Err(_) => None,
    }
}

/// Returns whether a line begins with an element of HTML or XML.
fn is_markup(line: &str) -> bool {
    let is_name = |first: char| first.is_ascii_alphabetic() || matches!(first, '!' | '?' | '/');
    line.strip_prefix('<').is_some_and(|rest| rest.starts_with(is_name))
}

/// The lines of a text. Each ends with LF, CR, or both.
struct Lines<R> {
    input: R,
    /// The line without its end.
    line: Vec<u8>,
    /// Whether the line has more bytes than it may have.
    is_long: bool,
    is_after_return: bool,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next line. Returns false at the end.
    fn next(&mut self) -> Result<bool, FeedError> {
        self.line.clear();
        self.is_long = false;
        let mut has_any = false;
        loop {
            let buffer = self.input.fill_buf()?;
            let Some(first) = buffer.first() else { return Ok(has_any) };
            if std::mem::take(&mut self.is_after_return) && *first == b'\n' {
                self.input.consume(1);
                continue;
            }
            has_any = true;
            let end = memchr2(b'\n', b'\r', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let space = MOST_BYTES.saturating_sub(self.line.len());
            self.is_long |= part.len() > space;
            self.line.extend_from_slice(&part[..part.len().min(space)]);
            let Some(end) = end else {
                let count = buffer.len();
                self.input.consume(count);
                continue;
            };
            self.is_after_return = buffer[end] == b'\r';
            self.input.consume(end + 1);
            return Ok(true);
        }
    }
}

/// Texts in quotes over several lines, as CSV and ipset have them.
#[derive(Debug, Default)]
struct Quotes {
    is_open: bool,
}

impl Quotes {
    /// Returns whether a line is a part of such a text, or has one without its end.
    fn see(&mut self, line: &str) -> bool {
        let is_whole = line.matches('"').count().is_multiple_of(2);
        if self.is_open {
            self.is_open = is_whole;
            return true;
        }
        self.is_open = !is_whole && (line.starts_with('"') || line.starts_with("add "));
        !is_whole
    }
}

/// A part of a list whose heading says that its addresses are not meant, such as `[whitelist]` or `allow:`.
#[derive(Debug, Default)]
struct Section {
    heading: Option<String>,
}

impl Section {
    fn is_used(&self) -> bool {
        self.heading.is_none()
    }

    fn see(&mut self, line: &str) {
        let in_brackets = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        let is_open = line.matches('{').count() > line.matches('}').count();
        if is_open
            || line.ends_with([':', '(', '[', '='])
            || in_brackets.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_err())
        {
            let words: Vec<_> = words(line).collect();
            self.heading = excluding(&words, |_| false);
        } else if line.starts_with(['}', ')', ']']) {
            self.heading = None;
        }
    }

    fn judge(&self, entry: entry::Entry) -> Result<entry::Entry, LineError> {
        match &self.heading {
            None => Ok(entry),
            Some(heading) => Err(LineError::Excluded(heading.clone())),
        }
    }
}
