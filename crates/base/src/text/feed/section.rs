//! Parts of a list whose heading says that their addresses are not meant, such as `[whitelist]`, `allow:` or `acl x {`.

use super::{
    item::Item,
    words::{excluding, words},
};

/// The most brackets inside each other. Behind more of them, nothing is taken.
const MOST_OPEN: usize = 64;

/// What says that the lines that follow are not meant. The parts inside such a part are not meant either.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// Said by a heading such as `[whitelist]`, to the next one.
    titled: Option<String>,
    /// Said by a heading such as `allow:`, to the next one that is not indented more.
    headed: Option<(String, usize)>,
    /// Said before a bracket, to its end.
    bracketed: Option<String>,
    /// The brackets that are open since then.
    open: Vec<u8>,
    /// Said by a line, to the end of those that go on with it.
    line: Option<Rest>,
}

/// A line that goes on.
#[derive(Debug)]
struct Rest {
    why: String,
    indent: usize,
    /// Whether the last line ended with what joins it to the next one.
    is_joined: bool,
}

impl Section {
    pub(super) fn is_used(&self) -> bool {
        self.titled.is_none() && self.headed.is_none() && self.bracketed.is_none() && self.line.is_none()
    }

    /// Reads what a line says of those below it. Returns why it is not meant, if the lines above it say so.
    pub(super) fn see(&mut self, line: &str, indent: usize) -> Option<String> {
        if let Some(rest) = &mut self.line {
            if rest.is_joined || indent > rest.indent {
                rest.is_joined = is_joined(line);
            } else {
                self.line = None;
            }
        }
        let all: Vec<_> = words(line).collect();
        let items: Vec<_> = all.iter().map(|word| !matches!(Item::of(word.text), Ok(None))).collect();
        let has_address = items.contains(&true);
        let said = excluding(&all, |at| items.get(at).is_some_and(|is_item| *is_item));
        if !has_address && line.starts_with('[') && line.ends_with(']') {
            (self.titled, self.headed) = (said, None);
        } else if !has_address
            && line.ends_with([':', '='])
            && self.headed.as_ref().is_none_or(|(_, outer)| indent <= *outer)
        {
            self.headed = said.map(|why| (why, indent));
        } else {
            let before = self.outer();
            self.brackets(line, said);
            return before.or_else(|| self.outer());
        }
        self.outer()
    }

    /// Reads the brackets of a line. Those outside an excluded part do not matter.
    fn brackets(&mut self, line: &str, said: Option<String>) {
        let (mut is_quoted, last) = (false, line.len() - 1.min(line.len()));
        for (at, byte) in line.bytes().enumerate() {
            match byte {
                b'"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
                // Sentences have these, too.
                b'(' if at != last => {}
                b')' if at != 0 => {}
                b'{' | b'[' | b'(' if self.bracketed.is_some() || said.is_some() => {
                    self.bracketed = self.bracketed.take().or_else(|| said.clone());
                    if self.open.len() <= MOST_OPEN {
                        self.open.push(byte);
                    }
                }
                b'}' | b']' | b')' if self.open.len() <= MOST_OPEN => {
                    let begin = if byte == b')' { b'(' } else { byte - 2 };
                    self.open.pop_if(|open| *open == begin);
                    if self.open.is_empty() {
                        self.bracketed = None;
                    }
                }
                _ => {}
            }
        }
    }

    /// Notes that a line is not meant, and whether others can go on with it.
    pub(super) fn go_on(&mut self, line: &str, indent: usize, why: &str) {
        let first = words(line).next().map(|word| word.text).unwrap_or_default();
        let is_entry = first.starts_with(|first: char| first.is_ascii_digit()) || !matches!(Item::of(first), Ok(None));
        // `192.0.2.1,allow,` ends with an empty column.
        if !is_entry || line.ends_with('\\') {
            self.line = Some(Rest { why: why.to_owned(), indent, is_joined: is_joined(line) });
        }
    }

    fn outer(&self) -> Option<String> {
        let headed = self.headed.as_ref().map(|(why, _)| why);
        let line = self.line.as_ref().map(|line| &line.why);
        self.bracketed.as_ref().or(self.titled.as_ref()).or(headed).or(line).cloned()
    }
}

fn is_joined(line: &str) -> bool {
    line.ends_with([',', '\\'])
}
