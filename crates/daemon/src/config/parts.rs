//! Cuts a file into parts: groups of rules, and everything else. So the trees of all rules are never in memory at once.
//!
//! If all parts can be read without a problem, and no other part has rules, together they mean the same as the file.

use std::ops::Range;

use toml_parser::{
    Source,
    lexer::{Token, TokenKind},
};

/// The number of rules in one part.
const RULES: usize = 256;

/// A file in parts.
#[derive(Debug)]
pub(super) struct Parts {
    /// Everything except `[[rule]]` tables.
    pub(super) others: String,
    /// The places of groups of rules. Each ends before the next head of another table.
    pub(super) rules: Vec<Range<usize>>,
}

impl Parts {
    /// Returns the parts of a text.
    pub(super) fn of(text: &str) -> Self {
        let mut parts = Self { others: String::new(), rules: Vec::new() };
        // The start of the current part, and its number of rules if it is a group of rules.
        let (mut start, mut count) = (0, None);
        for (place, is_rule) in heads(text).chain([(text.len(), false)]) {
            let goes_on = count.map_or(!is_rule, |count| is_rule && count < RULES);
            if !goes_on || place == text.len() {
                match count.take() {
                    Some(_) => parts.rules.push(start..place),
                    None => parts.others.push_str(text.get(start..place).unwrap_or_default()),
                }
                start = place;
            }
            if is_rule {
                count = Some(count.unwrap_or(0) + 1);
            }
        }
        parts
    }
}

/// Returns where the heads of tables begin, and whether each is exactly `[[rule]]`.
fn heads(text: &str) -> impl Iterator<Item = (usize, bool)> + '_ {
    let mut tokens = Source::new(text).lex().peekable();
    // The number of open brackets, and whether this is the start of a line.
    let (mut depth, mut is_start) = (0_usize, true);
    std::iter::from_fn(move || {
        loop {
            let token = tokens.next()?;
            match token.kind() {
                TokenKind::LeftSquareBracket if depth == 0 && is_start => {
                    let mut last = token;
                    while let Some(next) = tokens.next_if(|next| is_of_head(text, next)) {
                        last = next;
                    }
                    is_start = false;
                    let place = token.span().start();
                    return Some((place, text.get(place..last.span().end()) == Some("[[rule]]")));
                }
                TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => depth += 1,
                TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => depth = depth.saturating_sub(1),
                TokenKind::Newline => is_start = depth == 0,
                TokenKind::Whitespace => continue,
                _ => {}
            }
            is_start &= token.kind() == TokenKind::Newline;
        }
    })
}

/// Returns whether a token continues a head.
fn is_of_head(text: &str, token: &Token) -> bool {
    match token.kind() {
        TokenKind::LeftSquareBracket | TokenKind::RightSquareBracket => true,
        TokenKind::Atom => text.get(token.span().start()..token.span().end()) == Some("rule"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{in_parts, whole},
        Parts, RULES, Range,
    };

    fn of(text: &str) -> (String, Vec<&str>) {
        let Parts { others, rules } = Parts::of(text);
        assert_eq!(others.len() + rules.iter().map(Range::len).sum::<usize>(), text.len());
        (others, rules.into_iter().map(|part| &text[part]).collect())
    }

    #[test]
    fn rules_are_cut_out_and_similar_text_is_not() {
        for (text, expected) in [
            ("", vec![]),
            ("a = 1\n", vec![]),
            ("[[rule]]\na = 1\n [[rule]]\nb = 2", vec!["[[rule]]\na = 1\n [[rule]]\nb = 2"]),
            (
                "x = 1\n[[rule]] # one\na = [\n[[rule]]\n]\n[b]\nc = 1\n[[rule]]\n",
                vec!["[[rule]] # one\na = [\n[[rule]]\n]\n", "[[rule]]\n"],
            ),
            ("a = \"\"\"\n[[rule]]\n\"\"\"\nb = '''\n[[rule]]'''\n# [[rule]]\n", vec![]),
            // These stay in the rest of the file.
            ("[[ rule ]]\n[[\"rule\"]]\n[rule]\n[rule.a]\n[[rule.a]]\n[[rules]]\n", vec![]),
            ("a = {\nb = [\n[[rule]]\n", vec![]),
        ] {
            assert_eq!(of(text).1, expected, "{text}");
        }
        let (others, _) = of("x = 1\n[[rule]]\ny = 2\n[z]\n");
        assert_eq!(others, "x = 1\n[z]\n");
    }

    #[test]
    fn parts_have_a_limited_number_of_rules_and_all_of_them() {
        for count in [1, RULES - 1, RULES, RULES + 1, 3 * RULES] {
            let text = "[[rule]]\na = 1\n".repeat(count);
            let (_, parts) = of(&text);
            assert_eq!(parts.concat(), text);
            assert_eq!(parts.len(), count.div_ceil(RULES));
        }
    }

    /// Texts of files: whole tables and odd lines, in any order.
    fn files() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            6 => (0..40u8).prop_map(|n| format!("[[rule]]\nsource = \"10.0.0.{n}\"\npackets = \"{n}/s\"\n")),
            4 => (0..40u8).prop_map(|n| format!("  [[rule]] # {n}\npolicy = \"p\"\nsource = \"10.{n}.0.0/16\"\n")),
            1 => Just("[policy.p]\npackets = [\n\"5/s\"\n]\n".to_owned()),
            1 => Just("[default]\npackets = \"9/s\"\n".to_owned()),
            1 => Just("[service.\"udp/53\"]\ncost = 3\n".to_owned()),
            1 => prop::sample::select(vec![
                "interfaces = [\"eth0\"]\n",
                "rule = [{ source = \"10.9.9.9\", policy = \"deny\" }]\n",
                "[[\"rule\"]]\nsource = \"10.8.8.8\"\npolicy = \"deny\"\n",
                "[rule.a]\nb = 1\n",
                "[[rule.a]]\n",
                "[settings]\nshadow = true\n",
                "comment = \"\"\"\n[[rule]]\n\"\"\"\n",
                "comment = [\n[[rule]]\n",
                "[[rule]\n",
                "\"\"\"",
                "]\n",
            ]).prop_map(str::to_owned),
        ];
        prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_file_in_parts_means_the_same_as_the_whole(text in files()) {
            if let Some(config) = in_parts(&text, |_| 0) {
                let whole = whole(&text, |_| 0).expect("a file that is good in parts is good");
                prop_assert_eq!(config.rules, whole.rules);
                prop_assert_eq!(config.interfaces, whole.interfaces);
                prop_assert_eq!(config.requested, whole.requested);
                prop_assert_eq!(config.costs, whole.costs);
            }
        }
    }

    #[test]
    fn most_files_are_read_in_parts() {
        assert!(in_parts(include_str!("../../../../dist/ratelimit.toml"), |_| 0).is_some());
    }
}
