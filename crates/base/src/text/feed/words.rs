//! The words of a line, and what those say that are no address.

use crate::text::excerpt::excerpt;

/// A word, and the column that it is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) column: usize,
}

/// What says anywhere in a line, or in the name of a key, that an address is not meant.
const EXCLUDING: &[&str] = &[
    "accept",
    "accepted",
    "accepts",
    "allow",
    "allowed",
    "allowlist",
    "allowlisted",
    "allowlisting",
    "allows",
    "bypass",
    "delete",
    "deleted",
    "delist",
    "delisted",
    "disable",
    "disabled",
    "dunno",
    "except",
    "exception",
    "exceptions",
    "exclude",
    "excluded",
    "excludes",
    "excluding",
    "exclusion",
    "exclusions",
    "exempt",
    "exempted",
    "expired",
    "falsepositive",
    "goodlist",
    "ignore",
    "ignored",
    "ignoreip",
    "inactive",
    "negate",
    "negated",
    "nomatch",
    "passlist",
    "permit",
    "permits",
    "permitted",
    "remove",
    "removed",
    "removes",
    "revoked",
    "safelist",
    "trusted",
    "unban",
    "unbanned",
    "unblock",
    "unblocked",
    "undeny",
    "unlist",
    "unlisted",
    "welcomelist",
    "whitelist",
    "whitelisted",
    "whitelisting",
    "withdrawn",
];

/// What says so as a column of its own, or as the word beside the address.
const EXCLUDING_ALONE: &[&str] = &[
    "benign", "clean", "del", "false", "former", "formerly", "good", "ham", "not", "off", "ok", "pass", "return",
    "safe", "skip", "unless",
];

/// No word of these is longer.
const LONGEST: usize = 13;

/// Words at the start of a line that make it a comment elsewhere.
const COMMENTING: &[&str] = &["comment", "dnl", "note", "rem", "remark", "todo"];

/// Returns the words of a line.
pub(super) fn words(line: &str) -> impl Iterator<Item = Word<'_>> {
    let columns = line.split([',', ';', '|', '\t']).enumerate();
    columns.flat_map(|(column, text)| {
        text.split_whitespace()
            .map(|word| word.trim_matches(['"', '\'']))
            .filter(|word| !word.is_empty())
            .map(move |text| Word { text, column })
    })
}

/// Returns the word that says that an address is not meant, if one does.
pub(super) fn excluding(words: &[Word<'_>], is_item: impl Fn(usize) -> bool) -> Option<String> {
    let is_alone = |at: usize| {
        let same = |other: Option<&Word<'_>>| other.is_some_and(|other| other.column == words[at].column);
        let before = at.checked_sub(1).filter(|before| same(words.get(*before)));
        let after = Some(at + 1).filter(|after| same(words.get(*after)));
        before.is_some_and(&is_item) || after.is_some_and(&is_item) || before.or(after).is_none()
    };
    let found = words.iter().enumerate().find(|(at, word)| {
        !is_item(*at)
            && (excludes(word.text)
                || word.text.starts_with('!')
                || *at == 0 && is_in(COMMENTING, bare(word.text))
                || is_alone(*at) && is_in(EXCLUDING_ALONE, bare(word.text)))
    })?;
    Some(excerpt(found.1.text))
}

/// Returns whether a value says by itself that an address is not meant.
pub(super) fn excludes_as_value(text: &str) -> bool {
    excludes(text) || is_in(EXCLUDING_ALONE, bare(text))
}

/// Returns whether a word, or a part of it, says that an address is not meant.
pub(super) fn excludes(word: &str) -> bool {
    let is_part = |part: &str| part.len() > 4 && is_in(EXCLUDING, part);
    if word.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return is_part(word);
    }
    if word.split(|character: char| !character.is_ascii_alphanumeric()).any(is_part) {
        return true;
    }
    let joined: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
    is_part(&joined)
}

/// Returns whether a key says that what it has is not meant, such as `isWhitelisted` or `allow_list`.
pub(super) fn excludes_as_key(key: &str) -> bool {
    const STEMS: &[&str] = &[
        "allow",
        "whitelist",
        "permit",
        "exclu",
        "except",
        "exempt",
        "remov",
        "delet",
        "trusted",
        "ignore",
        "nomatch",
        "unban",
        "unblock",
        "accept",
        "falsepositive",
        "disabled",
        "inactive",
        "expired",
        "revoked",
        "safelist",
    ];
    let key: String = key.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_lowercase()).collect();
    STEMS.iter().any(|stem| key.contains(stem)) && !key.contains("disallow")
}

/// Returns whether a key says that what it has is meant, so that `false` excludes it.
pub(super) fn includes_as_key(key: &str) -> bool {
    const STEMS: &[&str] = &["enabled", "active", "block", "deny", "denied", "banned", "malicious", "listed"];
    let key = key.to_ascii_lowercase();
    STEMS.iter().any(|stem| key.contains(stem)) && !excludes_as_key(&key)
}

fn bare(word: &str) -> &str {
    word.trim_matches(|character: char| !character.is_ascii_alphanumeric())
}

/// Returns whether a word is one of these, which are in order.
fn is_in(all: &[&str], word: &str) -> bool {
    let mut lower = [0; LONGEST];
    let Some(lower) = lower.get_mut(..word.len()) else { return false };
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    all.binary_search_by(|other| other.as_bytes().cmp(lower)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order_and_none_is_too_long() {
        for all in [EXCLUDING, EXCLUDING_ALONE, COMMENTING] {
            assert!(all.is_sorted() && all.iter().all(|word| is_in(all, &word.to_ascii_uppercase())));
        }
    }
}
