//! Comments of a list, in the forms of several formats.

use std::borrow::Cow;

use super::content::LineError;

/// Comments that have an end.
const BLOCKS: [(&str, &str); 2] = [("/*", "*/"), ("<!--", "-->")];

/// Whether a comment goes on at the next line.
#[derive(Debug, Default)]
pub(super) struct Comments {
    /// The end of the comment, and the line where it begins.
    open: Option<(&'static str, usize)>,
}

impl Comments {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the line where a comment begins that has no end.
    pub(super) fn begin(&self) -> Option<usize> {
        self.open.map(|(_, line)| line)
    }

    /// Returns a line without its comments.
    ///
    /// # Errors
    ///
    /// Fails if a comment begins behind something else and does not end in the line: the text of a feed can have it.
    pub(super) fn without<'a>(&mut self, line: &'a str, number: usize) -> Result<Cow<'a, str>, LineError> {
        let (mut kept, mut rest) = (Cow::Borrowed(""), line);
        loop {
            if let Some((end, _)) = self.open {
                let Some((_, after)) = rest.split_once(end) else { return Ok(kept) };
                self.open = None;
                rest = after;
            }
            let (before, block) = cut(rest);
            if kept.is_empty() {
                kept = Cow::Borrowed(before);
            } else if !before.trim().is_empty() {
                // What stands on both sides of a comment are different words.
                let kept = kept.to_mut();
                kept.push(' ');
                kept.push_str(before);
            }
            let Some((end, after)) = block else { return Ok(kept) };
            if !kept.trim().is_empty() && !after.contains(end) {
                return Err(LineError::Comment);
            }
            self.open = Some((end, number));
            rest = after;
        }
    }
}

/// Returns what stands before the first comment. If it has an end, also the end, and what stands behind its beginning.
fn cut(line: &str) -> (&str, Option<(&'static str, &str)>) {
    let begin = line.len() - line.trim_start().len();
    let mut last_quote = None;
    let (mut from, mut is_word_before, mut is_quoted) = (0, false, false);
    while let Some(at) = line[from..].find(['#', ';', '/', '-', '<', 'R', 'r']).map(|at| from + at) {
        let rest = &line[at..];
        is_quoted ^= !line[from..at].matches('"').count().is_multiple_of(2);
        if at > from {
            is_word_before = !line[..at].ends_with(char::is_whitespace);
        }
        let is_first = at == begin;
        let is_space = |behind: &str| behind.chars().next().is_none_or(char::is_whitespace);
        let begins = match rest.as_bytes() {
            // `192.0.2.1#53` has a port.
            [b'#', behind @ ..] => !is_word_before || !is_port(behind),
            [b';', ..] | [b'/', b'/', ..] => !is_word_before,
            [b'-', b'-', ..] => !is_word_before && is_space(&rest[2..]),
            [b'R' | b'r', b'E' | b'e', b'M' | b'm', ..] => is_first && is_space(&rest[3..]),
            _ => false,
        };
        let block = BLOCKS.iter().find(|(begin, _)| !is_word_before && rest.starts_with(begin));
        if (begins || block.is_some())
            && (!is_quoted || at > *last_quote.get_or_insert_with(|| line.rfind('"').unwrap_or_default()))
        {
            if begins {
                return (&line[..at], None);
            }
            if let Some((begin, end)) = block {
                return (&line[..at], Some((end, &rest[begin.len()..])));
            }
        }
        is_word_before = true;
        from = at + 1;
    }
    (line, None)
}

/// Returns whether a text is a number to its end.
fn is_port(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}
