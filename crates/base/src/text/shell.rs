//! Words of a command as a shell takes them.

/// Returns a word as a shell takes it: as it is, or within quotes.
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(&byte);
    let is_quoted = word.is_empty() || word.bytes().any(|byte| byte.is_ascii() && !is_plain(byte));
    if is_quoted { format!("'{}'", word.replace('\'', r"'\''")) } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_takes_them() {
        for word in ["deny", "10.0.0.0/8", "--for=10m", "fe80::1%eth0", "größe"] {
            assert_eq!(quoted(word), word);
        }
        for (word, expected) in [("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''"), ("$(x)", "'$(x)'"), ("*", "'*'")]
        {
            assert_eq!(quoted(word), expected);
        }
    }
}
