//! Clients as the engine has them: the rule, a space, and the pairs as JSON.

use super::super::client::{Pair, Pairs};

/// The longest name of a rule or an attribute.
const NAME: usize = 64;

/// Returns a client as the engine has it.
pub(super) fn write(rule: &str, client: &str) -> String {
    format!("{rule} {client}")
}

/// Reads it. None if it makes no sense.
pub(super) fn read(text: &str) -> Option<(String, Pairs)> {
    let (rule, client) = text.split_once(' ')?;
    let pairs: Pairs = serde_json::from_str(client).ok()?;
    let are_good = is_name(rule) && pairs.iter().all(|(name, _)| is_name(name));
    are_good.then(|| (rule.to_owned(), pairs))
}

/// Returns a pattern that matches at least the clients with these attributes under a rule.
pub(super) fn pattern(wanted: &[Pair], rule: Option<&str>) -> String {
    let rule = rule.map_or_else(|| "*".to_owned(), literal);
    let part = wanted.first().map(|pair| format!("*{}", literal(&pair.whole()))).unwrap_or_default();
    format!("{rule} {part}*")
}

/// Returns a pattern that matches only this text.
fn literal(text: &str) -> String {
    let mut pattern = String::new();
    for char in text.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern
}

fn is_name(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    (1..=NAME).contains(&text.len()) && text.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_read_as_it_was_written_and_nothing_else_is() {
        let client = "[[\"user\",\"a b\"],[\"ip\",\"192.0.2.1\"]]";
        let pairs = vec![("user".to_owned(), "a b".to_owned()), ("ip".to_owned(), "192.0.2.1".to_owned())];
        assert_eq!(read(&write("all", client)), Some(("all".to_owned(), pairs)));
        for text in ["", "all", "all []x", "All []", "\u{1b}[2J []", "all [[\"\u{1b}\",\"1\"]]", "all [[\"user\"]]"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_pattern_matches_what_an_attribute_and_a_rule_say() {
        let pair = |text: &str| text.parse::<Pair>().unwrap();
        assert_eq!(pattern(&[pair("user=a*b")], None), "* *\\[\"user\",\"a\\*b\"\\]*");
        assert_eq!(pattern(&[pair("ip=192.0.2.0/24")], Some("a-b")), "a\\-b *\\[\"ip\",*");
        // Only its hash is there.
        assert_eq!(pattern(&[pair("key=secret")], None), "* *\\[\"key\",*");
        assert_eq!(pattern(&[], None), "* *");
    }
}
