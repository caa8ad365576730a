//! Text from files and other programs, as it may be printed on a terminal.

/// The number of characters that are shown.
const SHOWN: usize = 60;

/// Returns the beginning of a text, escaped.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => escaped(&text[..end]) + "…",
        None => escaped(text),
    }
}

/// Returns a text in which characters are escaped that would control the terminal, or that cannot be seen.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_text_is_not_changed() {
        for text in ["", "10.0.0.256", "packets = \"10/s\"", "it's C:\\ größer €"] {
            assert_eq!(excerpt(text), text);
        }
    }

    #[test]
    fn what_controls_a_terminal_is_escaped() {
        assert_eq!(excerpt("\x1b]0;title\x07\u{9b}2J\r\u{202e}"), "\\u{1b}]0;title\\u{7}\\u{9b}2J\\r\\u{202e}");
    }

    #[test]
    fn long_text_is_shortened() {
        let shown = excerpt(&"x".repeat(1_000_000));
        assert_eq!(shown, "x".repeat(SHOWN) + "…");
        assert_eq!(excerpt(&"x".repeat(SHOWN)), "x".repeat(SHOWN));
    }
}
