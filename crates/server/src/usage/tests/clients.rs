//! Names of clients.

use proptest::prelude::*;

use super::{super::client::stored, *};

fn one(name: &str, value: &str) -> String {
    stored([(name, value)].into_iter())
}

fn pairs(stored: &str) -> Pairs {
    serde_json::from_str(stored).unwrap()
}

proptest! {
    #[test]
    fn different_clients_have_different_names_of_bounded_length(
        first in "(\\PC|\"|\\\\|\n){0,300}", second in "(\\PC|\"|\\\\|\n){0,300}",
    ) {
        let names = [&first, &second].map(|value| one("user", value));
        prop_assert_eq!(names[0] == names[1], first == second);
        prop_assert!(names.iter().all(|name| name.len() <= 160), "{:?}", names);
        // A shortened value is no value of its own.
        let shortened = pairs(&names[0])[0].1.clone();
        prop_assert_eq!(one("user", &shortened) == names[0], shortened == first);
        // Either finds the client.
        for wanted in [&first, &shortened] {
            let wanted = pair(&format!("user={wanted}"));
            prop_assert!(wanted.is_of(&pairs(&names[0])), "{}", wanted);
        }
    }
}

#[test]
fn a_long_value_keeps_its_beginning_and_control_characters_count_as_long() {
    let long = "x".repeat(129);
    assert!(one("user", &long).starts_with(&format!("[[\"user\",\"{}…", "x".repeat(96))));
    assert_eq!(one("user", &long[1..]), format!("[[\"user\",\"{}\"]]", &long[1..]));
    assert!(one("user", &"\u{1}".repeat(10_000)).len() < 160);
}

#[test]
fn the_file_has_no_keys_but_their_hashes_find_them() {
    let client = one("key", "secret");
    // The first 16 bytes of SHA-256, in order not to change.
    assert_eq!(client, "[[\"key\",\"…2bb80d537b1da3e38bd30361aa855686\"]]");
    assert!(pair("key=secret").is_of(&pairs(&client)));
    assert!(pair("key=…2bb80d537b1da3e38bd30361aa855686").is_of(&pairs(&client)));
    assert!(!pair("key=other").is_of(&pairs(&client)));
}

#[test]
fn text_keeps_the_order_and_quotes_what_looks_like_something_else() {
    let show = |pairs: &[(&str, &str)]| text(&self::pairs(&stored(pairs.iter().copied())));
    assert_eq!(show(&[("user", "17"), ("operation", "createURL")]), "user=17 operation=createURL");
    assert_eq!(show(&[("user", "1 operation=x"), ("path", "/a?b=c")]), "user=\"1 operation=x\" path=/a?b=c");
    // Nothing moves the cursor of a terminal, or turns its direction.
    assert_eq!(show(&[("user", "\u{1b}[2J\u{202e}")]), "user=\"\\u{1b}[2J\\u{202e}\"");
    assert_eq!(show(&[("user", "")]), "user=\"\"");
    assert_eq!(show(&[]), "all");
}

#[test]
fn an_address_finds_its_prefix_and_a_prefix_its_addresses() {
    let is_of = |wanted: &str, stored: &str| pair(wanted).is_of(&pairs(&one("ip", stored)));
    for (wanted, stored, expected) in [
        ("ip=2001:db8::7", "2001:db8::/64", true),
        ("ip=2001:db8:0:1::7", "2001:db8::/64", false),
        ("ip=2001:db8::/32", "2001:db8::/64", true),
        ("ip=192.0.2.1", "192.0.2.1", true),
        ("ip=::ffff:192.0.2.1", "192.0.2.1", true),
        ("ip=192.0.2.0/24", "192.0.2.1", true),
        ("ip=192.0.2.2", "192.0.2.1", false),
    ] {
        assert_eq!(is_of(wanted, stored), expected, "{wanted} {stored}");
    }
    assert!("ip=here".parse::<Pair>().is_err() && "user".parse::<Pair>().is_err() && "=17".parse::<Pair>().is_err());
}

#[test]
fn a_client_of_many_attributes_has_a_name_of_bounded_length_that_no_other_has() {
    let name = |last: &str| {
        let values: Vec<_> = (0..62).map(|number| (format!("a{number}"), "x".repeat(100))).collect();
        stored(values.iter().map(|(name, value)| (&**name, &**value)).chain([("user", last)]))
    };
    let (first, second) = (name("1"), name("2"));
    assert!(first != second && first.len() <= 512 && second.len() <= 512, "{first}");
    let client = pairs(&first);
    assert!(pair(&format!("a0={}", "x".repeat(100))).is_of(&client));
    let (further, hash) = client.last().unwrap();
    assert_eq!((further.as_str(), hash.len()), ("…", 32));
}
