//! The lines of a list.

use std::{io::BufRead, net::IpAddr};

use memchr::{memchr, memchr2};

use super::{
    comments::Comments,
    content::{FeedError, LineError, MOST_LINES},
    entry,
    firewall::Sets,
    looks::Looks,
    section::Section,
    sink::Sink,
    words::words,
};
use crate::text::prefix::{Prefix, PrefixError};

/// The most bytes of a line.
pub(super) const MOST_BYTES: usize = 4_096;

/// Reads a list with one entry per line.
pub(super) fn read(input: impl BufRead, sink: &mut Sink) -> Result<(), FeedError> {
    let mut lines = Lines { input, line: Vec::new(), is_long: false, ends: Ends::Unknown };
    let (mut comments, mut looks, mut section) = (Comments::default(), Looks::default(), Section::default());
    let (mut quotes, mut sets, mut number) = (Quotes::default(), Sets::default(), 0);
    while lines.next()? {
        number += 1;
        if number > MOST_LINES {
            return Err(FeedError::Lines);
        }
        sink.check(|lines| looks.names(lines))?;
        if !comments.is_open()
            && !quotes.is_open
            && section.is_used()
            && !lines.is_long
            && let Some((prefix, given)) = plain(&lines.line)
        {
            sink.take_prefix(number, prefix, given, || String::from_utf8_lossy(&lines.line).trim().to_owned());
            continue;
        }
        let text = String::from_utf8_lossy(&lines.line);
        let (line, error) = match comments.without(&text, number) {
            Ok(line) => (line, None),
            Err(error) => (text.as_ref().into(), Some(error)),
        };
        let (line, indent) = (line.trim(), text.len() - text.trim_start().len());
        if lines.is_long {
            section.see(line, indent);
            sink.bad(number, format!("is longer than {MOST_BYTES} bytes"));
            continue;
        }
        if let Some(error) = error {
            section.see(line, indent);
            sink.refuse(number, line, &error);
            continue;
        }
        if line.is_empty() {
            continue;
        }
        if is_markup(line) && sink.is_without_prefix() {
            return Err(FeedError::Page);
        }
        if line.starts_with("create ") && line.split_whitespace().any(|word| matches!(word, "netmask" | "bitmask")) {
            return Err(FeedError::Netmask);
        }
        if sets.has_second(line) {
            return Err(FeedError::Sets);
        }
        let was_open = quotes.is_open;
        if quotes.see(line) {
            if !was_open {
                section.see(line, indent);
            }
            sink.refuse(number, line, &LineError::Quote);
            continue;
        }
        let outer = section.see(line, indent);
        let entry = entry::read(line);
        let entry = match (outer, entry) {
            (Some(why), Ok(_)) => Err(LineError::Excluded(why)),
            (None, Ok(entry)) if sink.takes_only_alone() && !entry.is_alone => Err(LineError::NotAlone),
            (None, Err(LineError::Excluded(why))) => {
                section.go_on(line, indent, &why);
                Err(LineError::Excluded(why))
            }
            (_, entry) => entry,
        };
        match entry {
            Ok(entry) => {
                looks.entry(&entry, sink.feed.usable);
                sink.take(number, line, &entry.items);
            }
            Err(error) => {
                if matches!(error, LineError::Prefix(PrefixError::Address)) {
                    looks.without(line);
                }
                // The line says already what is no address.
                let is_alone = matches!(error, LineError::Near(_)) && words(line).nth(1).is_none();
                let error = if is_alone { LineError::Prefix(PrefixError::Address) } else { error };
                if error.is_exclusion() {
                    sink.exclude(number, line, &error, &entry::excluded(line));
                } else {
                    sink.refuse(number, line, &error);
                }
            }
        }
    }
    if let Some(begin) = comments.begin() {
        return Err(FeedError::Comment(begin));
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

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Unknown,
    /// With LF, or with CR and LF. Another CR is a space.
    Lf,
    /// The first line ended with CR: what follows decides.
    AfterFirst,
    Cr,
}

/// The lines of a text.
struct Lines<R> {
    input: R,
    /// The line without its end.
    line: Vec<u8>,
    /// Whether the line has more bytes than it may have.
    is_long: bool,
    ends: Ends,
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
            match (self.ends, *first) {
                (Ends::AfterFirst, b'\n') => {
                    self.ends = Ends::Lf;
                    self.input.consume(1);
                    continue;
                }
                (Ends::AfterFirst, _) => self.ends = Ends::Cr,
                (Ends::Unknown, _) if memchr(b'\n', buffer).is_some() => self.ends = Ends::Lf,
                _ => {}
            }
            has_any = true;
            let end = if self.ends == Ends::Lf { memchr(b'\n', buffer) } else { memchr2(b'\n', b'\r', buffer) };
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let space = MOST_BYTES.saturating_sub(self.line.len());
            self.is_long |= part.len() > space;
            self.line.extend_from_slice(&part[..part.len().min(space)]);
            let Some(end) = end else {
                let count = buffer.len();
                self.input.consume(count);
                continue;
            };
            self.ends = match (self.ends, buffer[end]) {
                (Ends::Unknown, b'\r') => Ends::AfterFirst,
                (Ends::Cr, b'\n') => return Err(FeedError::Ends),
                (Ends::Unknown, _) => Ends::Lf,
                (ends, _) => ends,
            };
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
