//! The words of a line, and what those say that are no address.

use super::near::is_host;
use crate::text::excerpt::excerpt;

/// A word, and the column that it is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) column: usize,
    /// The number of the text in quotes with several words that it is in.
    quoted: Option<usize>,
}

/// What says that an address is not meant: the begin of a word, or any part of the name of a key.
const EXCLUDING: &[&str] = &[
    "accept", "allow", "benign", "bypass", "delet", "delist", "disabl", "dunno", "except", "exclu", "exempt",
    "expired", "ignor", "inactive", "negate", "nomatch", "permit", "remov", "revok", "trusted", "unban", "unblock",
    "undeny", "unlist", "withdraw",
];

/// What says so in any part of a word, or as the begin of a short text.
const LISTS: &[&str] = &["allowlist", "falsepositive", "goodlist", "passlist", "safelist", "welcomelist", "whitelist"];

/// What says so as a column of its own, as the word beside the address, or as the first word.
const EXCLUDING_ALONE: &[&str] = &[
    "clean", "del", "false", "former", "formerly", "good", "ham", "not", "off", "ok", "pass", "relay", "return",
    "safe", "skip", "unless",
];

/// What says that an address is meant.
const INCLUDING: &[&str] = &[
    "abus",
    "active",
    "attack",
    "bad",
    "ban",
    "black",
    "block",
    "denied",
    "deny",
    "drop",
    "enabled",
    "hostile",
    "listed",
    "malicious",
    "malware",
    "refuse",
    "reject",
    "spam",
    "suspicious",
    "threat",
];

/// What turns it around.
const NEGATING: &[&str] = &["nolonger", "donot", "dont", "isnot", "never", "not", "non", "no"];

/// Words that have a part of these, but say the opposite.
const OPPOSITES: &[&str] = &["disallow", "untrusted"];

/// Words at the start of a line that make it a comment elsewhere.
const COMMENTING: &[&str] = &["comment", "dnl", "note", "rem", "remark", "todo"];

/// The most words of a text that are read together.
const MOST_WORDS: usize = 6;

/// Returns the words of a line.
pub(super) fn words(line: &str) -> impl Iterator<Item = Word<'_>> {
    let (mut quotes, mut is_open) = (0, false);
    let columns = line.split([',', ';', '|', '\t']).enumerate();
    columns.flat_map(move |(column, text)| {
        let was_open = is_open;
        is_open ^= !text.matches('"').count().is_multiple_of(2);
        let is_text = text.trim().starts_with('"') && text.trim().contains(char::is_whitespace);
        quotes += usize::from(!was_open);
        let quoted = (was_open || is_open || is_text).then_some(quotes);
        text.split_whitespace()
            .map(|word| word.trim_matches(['"', '\'']))
            .filter(|word| !word.is_empty())
            .map(move |text| Word { text, column, quoted })
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
    let items: Vec<usize> = (0..words.len()).filter(|at| is_item(*at)).collect();
    let in_items = |quoted: Option<usize>| items.iter().any(|at| words[*at].quoted == quoted);
    // Behind the address, a name of a host or of a firm is no verdict.
    let is_name = |at: usize| {
        let Word { text, quoted, .. } = words[at];
        let is_of_host = || is_host(text) && !text.rsplit('.').next().is_some_and(excludes);
        items.first().is_some_and(|first| at > *first) && (quoted.is_some() && !in_items(quoted) || is_of_host())
    };
    let found = (0..words.len()).filter(|at| !is_item(*at)).find(|at| {
        let word = words[*at].text;
        word.starts_with('!')
            || !is_name(*at)
                && (excludes(word)
                    || *at == 0 && is_any(COMMENTING, bare(word))
                    || (*at == 0 || is_alone(*at)) && is_any(EXCLUDING_ALONE, bare(word)))
    });
    if let Some(at) = found {
        return Some(excerpt(words[at].text));
    }
    let columns = words.chunk_by(|one, other| one.column == other.column);
    let mut begin = 0;
    let texts = columns.map(|column| {
        let texts: Vec<&str> = (begin..).zip(column).filter(|(at, _)| !is_item(*at)).map(|(_, it)| it.text).collect();
        begin += column.len();
        texts
    });
    texts.into_iter().find(|texts| texts.len() > 1 && says_no(texts)).map(|texts| excerpt(&texts.join(" ")))
}

/// Returns whether a text, such as that of a column, says by its words together that an address is not meant.
fn says_no(texts: &[&str]) -> bool {
    let joined: String = texts.iter().take(MOST_WORDS).map(|text| joined(text)).collect();
    let first = texts.iter().map(|text| bare(text)).find(|text| !text.is_empty()).unwrap_or_default();
    let is_done = first.ends_with("ed") && !first.eq_ignore_ascii_case("trusted") && excludes(first);
    is_done || LISTS.iter().any(|list| joined.starts_with(list)) || is_negated(&joined)
}

/// Returns whether a text such as `nolongerlisted` turns around that an address is meant.
fn is_negated(joined: &str) -> bool {
    let rests = NEGATING.iter().filter_map(|begin| joined.strip_prefix(begin));
    rests.into_iter().any(|rest| INCLUDING.iter().any(|stem| rest.starts_with(stem)))
}

/// Returns whether a short text, which is no sentence, says by itself that an address is not meant.
pub(super) fn excludes_as_text(text: &str) -> bool {
    if text.contains("://") || text.contains('.') {
        return false;
    }
    let all: Vec<&str> = text.split_whitespace().take(MOST_WORDS + 1).collect();
    match all.as_slice() {
        [word] => excludes(word),
        all => all.len() <= MOST_WORDS && says_no(all),
    }
}

/// Returns whether a value says by itself that an address is not meant.
pub(super) fn excludes_as_value(text: &str) -> bool {
    excludes_as_text(text) || is_any(EXCLUDING_ALONE, bare(text))
}

/// Returns whether a word, or a part of it, says that an address is not meant.
pub(super) fn excludes(word: &str) -> bool {
    if !word.contains(|character: char| character.is_ascii_alphabetic()) {
        return false;
    }
    let joined = joined(word);
    let is_part = |part: &str| EXCLUDING.iter().any(|stem| begins(part, stem));
    word.split(|character: char| !character.is_ascii_alphanumeric()).any(is_part)
        || EXCLUDING.iter().any(|stem| joined.starts_with(stem))
        || LISTS.iter().any(|list| joined.contains(list))
        || is_negated(&joined)
}

/// Returns whether a key says that what it has is not meant, such as `isWhitelisted` or `allow_list`.
pub(super) fn excludes_as_key(key: &str) -> bool {
    let key = OPPOSITES.iter().fold(joined(key), |key, opposite| key.replace(opposite, ""));
    EXCLUDING.iter().chain(LISTS).any(|stem| key.contains(stem)) || is_negated(&key)
}

/// Returns whether a key says that what it has is meant, so that `false` excludes it.
pub(super) fn includes_as_key(key: &str) -> bool {
    let joined = joined(key);
    INCLUDING.iter().any(|stem| joined.contains(stem)) && !excludes_as_key(key)
}

/// Returns whether a text stands for `false`.
pub(super) fn is_false(text: &str) -> bool {
    is_any(&["0", "f", "false", "n", "no", "off"], text.trim())
}

/// Returns the letters and digits of a text in lower case.
fn joined(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_lowercase()).collect()
}

fn begins(word: &str, stem: &str) -> bool {
    word.as_bytes().get(..stem.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(stem.as_bytes()))
}

fn bare(word: &str) -> &str {
    word.trim_matches(|character: char| !character.is_ascii_alphanumeric())
}

fn is_any(all: &[&str], word: &str) -> bool {
    all.iter().any(|other| other.eq_ignore_ascii_case(word))
}
