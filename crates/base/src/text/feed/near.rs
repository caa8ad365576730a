//! Words that have an address in them, but are none that a list can take. A line with one is never used without it.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::content::LineError;
use crate::text::excerpt::excerpt;

/// Returns what is wrong with a word that is no address, if there is one in it.
pub(super) fn near(word: &str) -> Option<LineError> {
    if is_length(word) {
        return Some(LineError::Apart(excerpt(word)));
    }
    if !has_v4(word) && !has_v6(word) {
        return None;
    }
    Some(if has_zone(word) {
        LineError::Zone
    } else if has_port(word) {
        LineError::Port
    } else if has_zeros(word) {
        LineError::Zeros
    } else {
        LineError::Near(excerpt(word))
    })
}

/// Returns whether a word is a length without its address, such as `/24`.
fn is_length(word: &str) -> bool {
    word.strip_prefix('/').is_some_and(|bits| bits.starts_with(|first: char| first.is_ascii_digit()))
}

/// Returns whether a word has four numbers between dots, or is a part of such an address.
fn has_v4(word: &str) -> bool {
    let is_part = |character: char| character.is_ascii_digit() || character == '.';
    if !word.contains('.') || is_host(word) {
        return false;
    }
    let parts = |run: &str| run.split('.').filter(|part| !part.is_empty()).count();
    if word.split(|character| !is_part(character)).any(|run| parts(run) >= 4) {
        return true;
    }
    // A version or a date can have three numbers. So a number above 255 or a fourth part without one decides.
    let numbers: Vec<&str> = word.split('.').collect();
    let is_octet = |part: &&str| part.parse::<u8>().is_ok();
    match numbers.as_slice() {
        [one, two, three] => is_octet(one) && is_octet(two) && (is_octet(three) || three.is_empty()),
        [first @ .., _] if first.len() == 3 => first.iter().all(is_octet),
        _ => false,
    }
}

/// Returns whether a word is a name with letters behind its last dot.
pub(super) fn is_host(word: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
    let end = word.trim_end_matches('.').rsplit_once('.').map_or("", |(_, end)| end);
    end.len() > 1 && end.starts_with(|first: char| first.is_ascii_alphabetic()) && word.chars().all(is_part)
}

/// Returns whether a word has an IPv6 address, or is nearly one.
fn has_v6(word: &str) -> bool {
    if word.matches(':').count() < 2 {
        return false;
    }
    let is_part = |character: char| character.is_ascii_hexdigit() || matches!(character, ':' | '.');
    let has_one = word.split(|character| !is_part(character)).any(|run| {
        let is_inside = |at: usize| word[at..].chars().next().is_some_and(char::is_alphanumeric);
        let begin = run.as_ptr() as usize - word.as_ptr() as usize;
        let is_alone = !is_inside(begin + run.len()) && !word[..begin].ends_with(char::is_alphanumeric);
        is_alone && run.trim_end_matches('.').parse::<Ipv6Addr>().is_ok()
    });
    let is_like = word.chars().all(|character| is_part(character) || matches!(character, '/' | '%' | '[' | ']' | '*'));
    let groups: Vec<&str> = word.split(':').collect();
    // Neither a time nor the address of a network card.
    let is_card = groups.len() == 6 && groups.iter().all(|group| group.len() == 2);
    has_one || is_like && (word.contains("::") || groups.len() > 4) && !is_card
}

fn has_zone(word: &str) -> bool {
    word.split_once('%').is_some_and(|(address, _)| address.trim_start_matches('[').parse::<Ipv6Addr>().is_ok())
}

fn has_port(word: &str) -> bool {
    let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let v4 = word.split_once([':', '#']);
    let v6 = word.strip_prefix('[').and_then(|word| word.split_once("]:"));
    v4.is_some_and(|(address, port)| address.parse::<Ipv4Addr>().is_ok() && is_number(port))
        || v6.is_some_and(|(address, port)| address.parse::<Ipv6Addr>().is_ok() && is_number(port))
}

/// Returns whether an IPv4 address has a number such as 010, which some read as eight.
fn has_zeros(word: &str) -> bool {
    let address = word.split(['/', '-', ':']).next().unwrap_or_default();
    address.split('.').count() == 4
        && address.split('.').all(|part| part.parse::<u8>().is_ok())
        && address.parse::<Ipv4Addr>().is_err()
}
