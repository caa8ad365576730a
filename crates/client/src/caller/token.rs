//! The token that a caller shows.

use std::str::FromStr;

use http::HeaderValue;

use super::error::TokenError;

/// A token that the server knows by its hash. It is not printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token(HeaderValue);

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError);
        }
        let mut header = HeaderValue::from_str(&format!("Bearer {text}")).map_err(|_| TokenError)?;
        header.set_sensitive(true);
        Ok(Self(header))
    }
}

impl Token {
    /// Returns the value of the header `Authorization`.
    #[doc(hidden)]
    pub fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}
