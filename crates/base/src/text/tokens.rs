//! Bounds the tokens of JSON, which a parser keeps in memory.

use std::io::{self, Read};

/// The longest token in bytes.
const MOST: u32 = 4_096;

/// Passes JSON on, and fails at a token that is too long.
pub struct Bounded<R> {
    source: R,
    /// Bytes since the token began.
    length: u32,
    is_text: bool,
    is_escaped: bool,
}

impl<R> Bounded<R> {
    /// Bounds the tokens of a source.
    pub fn of(source: R) -> Self {
        Self { source, length: 0, is_text: false, is_escaped: false }
    }

    /// Returns whether the token stays within its bound with this byte.
    fn admits(&mut self, byte: u8) -> bool {
        let ends = match byte {
            _ if self.is_escaped => {
                self.is_escaped = false;
                false
            }
            b'\\' if self.is_text => {
                self.is_escaped = true;
                false
            }
            b'"' => {
                self.is_text = !self.is_text;
                true
            }
            b',' | b':' | b'{' | b'}' | b'[' | b']' => !self.is_text,
            _ => false,
        };
        self.length = if ends { 0 } else { self.length + 1 };
        self.length <= MOST
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.iter().all(|byte| self.admits(*byte)) {
            return Ok(count);
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("a text or number has more than {MOST} bytes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(text: &str) -> bool {
        Bounded::of(text.as_bytes()).read_to_end(&mut Vec::new()).is_ok()
    }

    #[test]
    fn tokens_have_a_bound_and_texts_of_many_tokens_have_none() {
        let long = "x".repeat(MOST as usize);
        assert!(passes(&format!("[\"{long}\"]")));
        assert!(!passes(&format!("[\"{long}x\"]")));
        assert!(!passes(&"1".repeat(MOST as usize + 1)));
        assert!(passes(&format!("[{}1]", "1,".repeat(MOST as usize))));
        // Neither an escaped quote nor a comma ends a text.
        assert!(!passes(&format!("\"{}", "\\\",".repeat(MOST as usize))));
        assert!(passes(&"\"\\\\\",".repeat(MOST as usize)));
    }
}
