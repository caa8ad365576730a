use proptest::prelude::*;
use ratelimit_common::{
    cells::learned_rate::{LEAST, MOST, MOST_REPEATS},
    identity::{service::Transport, source::Source},
};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn prefix() -> impl Strategy<Value = Prefix> {
    // A sender can put an IPv4-mapped address into an IPv6 packet.
    let mapped = any::<u32>().prop_map(|v4| 0xffff << 32 | u128::from(v4));
    let v6 = (prop_oneof![any::<u128>(), mapped], 1u8..=128).prop_map(|(address, bits)| {
        let source = Source::v6(address.to_be_bytes(), bits);
        Prefix::of(&source, bits)
    });
    prop_oneof![any::<[u8; 4]>().prop_map(|address| Prefix::of(&Source::v4(address), 32)), v6]
}

fn service() -> impl Strategy<Value = Service> {
    let services =
        vec![Service::Any, Service::Icmp, Service::TcpSyn, Service::Protocol(47), Service::port(Transport::Udp, 53)];
    prop::sample::select(services)
}

fn learned() -> impl Strategy<Value = LearnedRate> {
    let rates = (LEAST..=MOST, 0..1u64 << 40, 0..9_999u64, 0..=MOST_REPEATS, any::<[u32; DAYS]>());
    rates.prop_map(|(per_minute, calm, restless_of_day, repeats, most)| LearnedRate {
        per_minute,
        calm,
        restless_of_day,
        repeats,
        most: most.map(u64::from),
        ..LearnedRate::default()
    })
}

fn saved() -> impl Strategy<Value = Saved> {
    let debt = (prefix(), service(), 1..=LONGEST_DEBT, 0..=LONGEST_DEBT)
        .prop_map(|(source, service, first, second)| Debt { source, service, left: [first, second] });
    let ban = (prefix(), service(), 1..=ban::LONGEST, 0u8..=40).prop_map(|(source, service, left, doubled)| Ban {
        source,
        service,
        left,
        doubled,
    });
    (prop::collection::vec(debt, 0..8), prop::collection::vec(ban, 0..8), prop::option::of(learned()))
        .prop_map(|(debts, bans, learned)| Saved { debts, bans, learned })
}

fn text(saved: &Saved, written: u64) -> String {
    let mut text = Vec::new();
    write(saved, written, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Returns the longest times that are left.
fn longest(saved: &Saved) -> [u64; 2] {
    let debts = saved.debts.iter().map(Debt::longest).max().unwrap_or(0);
    [debts, saved.bans.iter().map(|ban| ban.left).max().unwrap_or(0)]
}

proptest! {
    #[test]
    fn what_is_written_is_read_less_the_time_that_has_passed(saved in saved(), written: u64, passed in 0u64..1 << 58) {
        let text = text(&saved, written);
        prop_assert!(text.starts_with(BEGINNING));
        prop_assert_eq!(parse(&text, written), Ok(saved.clone()));
        let now = written.saturating_add(passed);
        let less = |left: u64| left.saturating_sub(now - written);
        let debts = saved.debts.iter().map(|debt| Debt { left: debt.left.map(less), ..*debt });
        let bans = saved.bans.iter().map(|ban| Ban { left: less(ban.left), ..*ban });
        let expected = Saved {
            learned: saved.learned,
            debts: debts.filter(|debt| debt.left != [0; 2]).collect(),
            bans: bans.filter(|ban| ban.left != 0).collect(),
        };
        prop_assert_eq!(parse(&text, now), Ok(expected));
    }

    /// Whatever both clocks read, nothing lasts longer than it did.
    #[test]
    fn a_wrong_clock_makes_nothing_longer(saved in saved(), written: u64, now: u64) {
        let read = parse(&text(&saved, written), now).unwrap();
        let ([debt, ban], [most_debt, most_ban]) = (longest(&read), longest(&saved));
        prop_assert!(debt <= most_debt && ban <= most_ban);
        prop_assert!(now > written || read == saved);
    }

    #[test]
    fn a_part_of_a_file_is_refused(saved in saved(), part in 0.0..1.0f64) {
        let text = text(&saved, 7);
        let part = (text.len() as f64 * part) as usize;
        prop_assert!(parse(&text[..part], 7).is_err());
        let more = format!("{text}{}\n", r#"{"debt":{"source":"192.0.2.1","service":"any","left":[1,1]}}"#);
        prop_assert_eq!(parse(&more, 7), Err(FormatError::Incomplete));
    }

    #[test]
    fn garbage_is_refused_and_never_panics(text: String, saved in saved(), at in 0.0..1.0f64, byte in 0u8..128) {
        prop_assert!(parse(&text, 7).is_err());
        let mut bytes = self::text(&saved, 7).into_bytes();
        let at = (bytes.len() as f64 * at) as usize;
        bytes[at] = byte;
        // Another digit can be good.
        let _ = parse(&String::from_utf8(bytes).unwrap(), 7);
    }
}

#[test]
fn an_impossible_learned_rate_and_additions_of_later_versions_leave_the_rest_in_force() {
    let ban = Ban { source: Prefix::of(&Source::v4([192, 0, 2, 7]), 32), service: Service::Any, left: 9, doubled: 0 };
    let learned = LearnedRate { per_minute: LEAST, calm: 7, ..LearnedRate::default() };
    let saved = Saved { learned: Some(learned), bans: vec![ban], ..Saved::default() };
    let text = text(&saved, 7);
    assert_eq!(parse(&text.replacen("\"bans\"", "\"more\":[1],\"bans\"", 1), 7), Ok(saved.clone()));
    let impossible = text.replace(&format!("\"per_minute\":{LEAST}"), "\"per_minute\":1");
    assert_ne!(text, impossible);
    assert_eq!(parse(&impossible, 7), Ok(Saved { learned: None, ..saved }));
}

#[test]
fn every_problem_is_named() {
    let head = |debts: u64, bans: u64| {
        let counts = format!("\"debts\":{debts},\"bans\":{bans}");
        format!("{{\"format\":\"ratelimit-state\",\"version\":1,\"written\":{SECOND},{counts}}}\n")
    };
    let debt = |source: &str, service: &str, left: u64| {
        format!("{{\"debt\":{{\"source\":\"{source}\",\"service\":\"{service}\",\"left\":[{left},0]}}}}\n")
    };
    let ban = format!(
        "{{\"ban\":{{\"source\":\"192.0.2.7\",\"service\":\"any\",\"left\":{},\"doubled\":0}}}}\n",
        ban::LONGEST + 1
    );
    let good = head(1, 0) + &debt("192.0.2.7", "udp/53", 9);
    assert_eq!(parse(&good, SECOND).unwrap().debts[0].left, [9, 0]);
    for (text, expected) in [
        (String::new(), "is not a state file"),
        ("[]\n".to_owned(), "is not a state file"),
        (good.replace("-state", "-other"), "is not a state file"),
        (good.replace("\"version\":1", "\"version\":2,\"new\":[]"), "is of version 2 of the format, not 1"),
        (head(0, 0) + &debt("192.0.2.7", "any", 9), "is not complete"),
        (head(2, 0) + &debt("192.0.2.7", "any", 9), "is not complete"),
        (good.trim_end().to_owned(), "is not complete"),
        (head(100_001, 0), "line 1: more debts or bans than any instance has"),
        (head(0, 1 << 40), "line 1: more debts or bans than any instance has"),
        (head(1, 0) + &debt("192.0.2.0/33", "any", 9), "line 2: expected at most 32 bits after the slash"),
        (head(1, 0) + &debt("192.0.2.7", "tcp/x", 9), "line 2: expected a port from 0 to 65535"),
        (head(1, 0) + &debt("192.0.2.7", "any", LONGEST_DEBT + 1), "line 2: a debt that no limit can make"),
        (head(0, 1) + &ban, "line 2: a ban that is longer than any"),
        (good.replace("\"left\"", "\"right\""), "line 2: unknown field `right`"),
        (good.replace("\"debt\":{", "\"more\":{"), "line 2: unknown variant `more`"),
        (good.clone() + "\n", "line 3: "),
    ] {
        let error = parse(&text, SECOND).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}
