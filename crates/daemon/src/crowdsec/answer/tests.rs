//! Recorded and hostile answers.

use super::*;

/// An answer of CrowdSec 1.4.6.
const RECORDED: &str = r#"{"deleted":[{"duration":"-1h2m3.5s","id":7,"origin":"cscli","scenario":"manual 'ban'",
    "scope":"Ip","type":"ban","value":"192.0.2.7"}],"new":[{"duration":"3h59m49.264032632s","id":9,"origin":"cscli",
    "scenario":"manual 'ban'","scope":"Ip","type":"ban","value":"192.0.2.9"},{"duration":"59.5s","id":10,
    "origin":"CAPI","scenario":"x","scope":"Range","type":"ban","value":"2001:db8::1/48"}]}"#;

fn all(text: &str) -> Result<Answer, String> {
    Answer::read(text.as_bytes(), Question::All).map_err(|error| error.to_string())
}

fn with(new: &str) -> Answer {
    all(&format!("{{\"new\":[{new}],\"deleted\":null}}")).unwrap()
}

#[test]
fn a_recorded_answer_gives_decisions_with_their_ends() {
    let decision = |id, source: &str, milliseconds| Decision {
        id,
        source: source.parse().unwrap(),
        left: Duration::from_millis(milliseconds),
    };
    let mut answer = Answer::read(RECORDED.as_bytes(), Question::Changes).unwrap();
    answer.new[0].left = Duration::from_millis(answer.new[0].left.as_millis() as u64);
    assert_eq!(answer.new, [decision(9, "192.0.2.9", 14_389_264), decision(10, "2001:db8::/48", 59_500)]);
    assert_eq!((answer.deleted, answer.ignored, answer.example), (vec![7], 0, None));
    assert!(all(RECORDED).unwrap().deleted.is_empty());
}

#[test]
fn nothing_of_a_broken_answer_is_used() {
    assert_eq!(all(r#"{"new":null,"deleted":null}"#), Ok(Answer::default()));
    let truncated = RECORDED.get(..RECORDED.len() - 1).unwrap();
    let long = format!(r#"{{"new":[{{"value":"{}"}}],"deleted":[]}}"#, "1".repeat(5_000));
    let deep = "[".repeat(100_000);
    for broken in [
        "",
        "{}",
        "[]",
        "null",
        "<html>",
        r#"{"new":[]}"#,
        r#"{"deleted":[]}"#,
        r#"{"message":"no"}"#,
        r#"{"new":5,"deleted":[]}"#,
        r#"{"new":[5],"deleted":[]}"#,
        r#"{"new":[],"deleted":[]} more"#,
        r#"{"new":[{"id":"x"}],"deleted":[]}"#,
        truncated,
        &long,
        &deep,
    ] {
        assert!(all(broken).is_err(), "{broken}");
    }
}

#[test]
fn only_bans_of_addresses_and_ranges_are_used_and_the_first_other_one_is_named() {
    let ban = |value: &str| format!(r#"{{"id":1,"duration":"1h","type":"ban","scope":"Ip","value":"{value}"}}"#);
    for (value, source) in [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("192.0.2.9/24", "192.0.2.0/24"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
    ] {
        assert_eq!(with(&ban(value)).new[0].source, source.parse().unwrap());
    }
    for (other, why) in [
        (ban("0.0.0.0/0"), "a range that is too wide: 0.0.0.0/0"),
        (ban("host.example"), "no address or range: host.example"),
        (ban("1").replace("\"ban\"", "\"captcha\""), "type captcha"),
        (ban("1").replace("Ip", "Country"), "scope Country"),
        (ban("192.0.2.1").replace("1h", "long"), "no duration: long"),
        (ban("192.0.2.1").replace("\"id\"", "\"simulated\":true,\"id\""), "a simulated one"),
        ("{}".to_owned(), "type (none)"),
        (ban(&"x\\u001b".repeat(500)), ""),
    ] {
        let answer = with(&[other, "{\"type\":\"other\"}".to_owned()].join(","));
        assert_eq!((answer.new.len(), answer.ignored), (0, 2));
        let example = answer.example.unwrap();
        assert!(example.starts_with(why) && example.len() < 500 && !example.contains('\x1b'), "{example}");
    }
    // An end that has passed is one now.
    assert_eq!(with(&ban("192.0.2.1").replace("1h", "-1h0m3s")).new[0].left, Duration::ZERO);
}
