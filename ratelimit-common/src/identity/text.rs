//! Short text of an operator in an entry of a map: the name of a policy, or the comment of a rule.

use core::fmt;

use crate::boundary;

/// Text of at most `N` bytes, filled up with zeroes. It has no control characters.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
}
boundary!(Text<32>, size 32);
boundary!(Text<64>, size 64);

/// Why text cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextError {
    /// It has more bytes than this.
    Long(usize),
    /// It has a line break or another control character.
    Control,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long(most) => write!(f, "expected at most {most} bytes of text"),
            Self::Control => f.write_str("expected one line of text, without control characters"),
        }
    }
}

impl core::error::Error for TextError {}

impl<const N: usize> Text<N> {
    /// No text.
    pub const EMPTY: Self = Self { bytes: [0; N] };

    /// Returns this text for an entry of a map.
    ///
    /// # Errors
    ///
    /// [`TextError`] if it is too long, or has a control character.
    pub fn new(text: &str) -> Result<Self, TextError> {
        if text.chars().any(char::is_control) {
            return Err(TextError::Control);
        }
        let mut all = Self::EMPTY;
        all.bytes.get_mut(..text.len()).ok_or(TextError::Long(N))?.copy_from_slice(text.as_bytes());
        Ok(all)
    }

    /// Returns the text with these bytes, as an entry of a map has them.
    #[must_use]
    pub const fn of_bytes(bytes: [u8; N]) -> Self {
        Self { bytes }
    }

    /// Returns its bytes.
    #[must_use]
    pub const fn bytes(&self) -> [u8; N] {
        self.bytes
    }

    /// Returns the text. None if there is none.
    #[must_use]
    pub fn get(&self) -> Option<&str> {
        let text = self.bytes.split(|byte| *byte == 0).next()?;
        core::str::from_utf8(text).ok().filter(|text| !text.is_empty())
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_line_that_fits() {
        assert_eq!(Text::<32>::new("").unwrap().get(), None);
        for text in ["a", "für NTP, # 7", "0123456789abcdef0123456789abcdé"] {
            assert_eq!(Text::<32>::new(text).unwrap().get(), Some(text));
        }
        assert_eq!(Text::<32>::new("0123456789abcdef0123456789abcdefg"), Err(TextError::Long(32)));
        assert_eq!(Text::<32>::new("0123456789abcdef0123456789abcdeé"), Err(TextError::Long(32)));
        for text in ["a\nb", "\t", "a\0", "\u{85}", "\x1b[31m"] {
            assert_eq!(Text::<32>::new(text), Err(TextError::Control), "{text:?}");
        }
    }
}
