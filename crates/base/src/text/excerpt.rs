//! Text from files and other programs, as it may be printed on a terminal.

/// The number of characters that are shown.
const SHOWN: usize = 60;

/// Returns the beginning of a text, escaped.
pub fn excerpt(text: &str) -> String {
    within(SHOWN, text)
}

/// The number of characters of a message about a text.
const MESSAGE: usize = 300;

/// Returns a message that can repeat parts of a hostile text, as one line within bounds.
pub fn message(text: &str) -> String {
    within(MESSAGE, text)
}

/// Returns as much of a text as has so many characters, escaped.
fn within(most: usize, text: &str) -> String {
    let (mut shown, mut count) = (String::new(), 0);
    for character in text.chars() {
        let end = shown.len();
        push(&mut shown, character);
        count += shown.get(end..).unwrap_or_default().chars().count();
        if count > most {
            shown.truncate(end);
            return shown + "…";
        }
    }
    shown
}

/// Returns a text in which characters are escaped that would control the terminal, or that cannot be seen.
pub fn escaped(text: &str) -> String {
    let mut shown = String::new();
    text.chars().for_each(|character| push(&mut shown, character));
    shown
}

fn push(shown: &mut String, character: char) {
    match character {
        '"' | '\'' | '\\' => shown.push(character),
        _ => shown.extend(character.escape_debug()),
    }
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
    fn a_message_is_one_line_within_bounds() {
        assert_eq!(message("unknown field `a\nb`"), "unknown field `a\\nb`");
        assert_eq!(message(&"\u{e9}".repeat(1_000)), "\u{e9}".repeat(MESSAGE) + "…");
        // Ten characters stand for each of these.
        assert_eq!(message(&"\u{10ffff}".repeat(1_000)), "\\u{10ffff}".repeat(MESSAGE / 10) + "…");
    }

    #[test]
    fn long_text_is_shortened() {
        let shown = excerpt(&"x".repeat(1_000_000));
        assert_eq!(shown, "x".repeat(SHOWN) + "…");
        assert_eq!(excerpt(&"x".repeat(SHOWN)), "x".repeat(SHOWN));
    }
}
