//! Keys, and what the screen shows, without a terminal and without an instance.

use std::{collections::BTreeMap, net::Ipv6Addr};

use proptest::prelude::*;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};
use ratelimit_base::text::amount::amount;
use ratelimit_dataplane::readings::sampling::Few;

use super::{
    change::Verdict,
    followed::By,
    reading::{Reading, Row, View},
    screen,
    state::{Action, State},
};

fn source(name: &str, per_second: [u64; 2], total: [u64; 2]) -> Row {
    let (source, detail) = (name.parse().ok(), "1000/s".to_owned());
    Row { name: name.to_owned(), kind: "any".to_owned(), per_second, total, detail, source, ..Row::default() }
}

fn reading(sources: Vec<Row>) -> Reading {
    let interface = Row { name: "eth0".to_owned(), detail: "native".to_owned(), ..Row::default() };
    let rows = BTreeMap::from([(View::Sources, sources), (View::Interfaces, vec![interface])]);
    let diagnosis = "No packet is over a limit now.".to_owned();
    Reading {
        interfaces: "eth0: enforced".to_owned(),
        sources: (1_234_567, true),
        diagnosis,
        rows,
        ..Reading::default()
    }
}

/// A quiet source, one over its limit, and a busy one.
fn three() -> State {
    State::new(reading(vec![
        source("192.0.2.1", [5, 0], [50, 0]),
        source("192.0.2.66", [100, 900], [200, 70]),
        source("2001:db8::/64", [4_000, 1], [9_000, 80]),
    ]))
}

fn press(state: &mut State, keys: &str) -> Option<Action> {
    let key = |character| match character {
        '\n' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\u{1b}' => KeyCode::Esc,
        'v' => KeyCode::Down,
        other => KeyCode::Char(other),
    };
    keys.chars().map(|character| state.press(KeyEvent::new(key(character), KeyModifiers::NONE))).last().flatten()
}

fn names(state: &State) -> Vec<String> {
    state.rows().into_iter().map(|row| row.name).collect()
}

fn drawn(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |row| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
    (0..height).map(|row| line(row).trim_end().to_owned()).collect()
}

#[test]
fn the_screen_of_80_columns_shows_everything_of_a_source() {
    assert_eq!(
        drawn(&three(), 80, 11),
        [
            "eth0: enforced",
            "passed 0/s  dropped 0/s  sources ~1.2 M",
            "No packet is over a limit now.",
            "",
            " sources   services   reasons   interfaces   by refused/s",
            "sources       service passed/s refused/s   passed  refused policy",
            "192.0.2.66    any          100       900      200       70 1000/s",
            "2001:db8::/64 any        4,000         1    9,000       80 1000/s",
            "192.0.2.1     any            5         0       50        0 1000/s",
            "",
            "Tab view  s sort  / filter  p pause  b ban  a allow  0 reset  ? help  q quit",
        ]
    );
}

#[test]
fn the_policy_of_a_source_with_a_long_name_fits_80_columns() {
    let state =
        State::new(reading(vec![source("fe80::b83c:44ff:fe5a:ea8d", [12_345, 67_890], [1_234_567, 7_654_321])]));
    let lines = drawn(&state, 80, 11);
    assert_eq!(lines[6], "fe80::b83c:44ff:fe5a:ea8d any       12,345    67,890    1.2 M    7.7 M 1000/s");
}

#[test]
fn a_narrow_screen_shows_whole_numbers_and_marks_names_that_are_cut() {
    let long = source("2001:db8:1111:2222:3333:4444:5555:6666", [12_345, 67_890], [1_234_567, 7_654_321]);
    let state = State::new(reading(vec![long]));
    assert_eq!(
        drawn(&state, 80, 11)[5..7],
        [
            "sources                                service passed/s refused/s policy",
            "2001:db8:1111:2222:3333:4444:5555:6666 any       12,345    67,890 1000/s",
        ]
    );
    assert_eq!(
        drawn(&state, 40, 11)[1..7],
        [
            "passed 0/s  dropped 0/s  sources ~1.2 M",
            "No packet is over a limit now.",
            "",
            " sources   by refused/s",
            "sources               passed/s refused/s",
            "2001:db8:1…:5555:6666   12,345    67,890",
        ]
    );
    assert_eq!(drawn(&state, 20, 11)[1], "passed 0/s");
}

#[test]
fn a_text_that_does_not_fit_has_a_mark() {
    let mut state = three();
    let source = "2001:db8:1111:2222:3333:4444:5555:6666";
    state.reading.diagnosis = format!(
        "{source} sends 14,466 packets/s to udp/53 over its limit. `ratelimit deny add {source} --for 10m` drops all its packets."
    );
    let text = |width, height| drawn(&state, width, height)[2..].join(" ");
    // All of it is there on a usual screen.
    for width in [40, 60, 80, 120] {
        let words = text(width, 24).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.starts_with(&state.reading.diagnosis), "{width}: {words}");
    }
    assert!(drawn(&state, 40, 10)[3].ends_with('…'), "{:#?}", drawn(&state, 40, 10));
    press(&mut state, "/2001:db8:1111:2222:3333:4444:5555:6666\n");
    assert!(drawn(&state, 40, 24).iter().any(|line| line.starts_with(" sources ") && line.contains('…')));
}

#[test]
fn one_or_two_samples_are_a_bound_and_come_last() {
    let few = |sure, below| Some(Few { sure, below });
    let mut rows = vec![source("192.0.2.5", [6_117, 0], [256, 0]), source("192.0.2.6", [40, 0], [40, 0])];
    rows[0] = Row { few: [few(0, 36_000), None], are_estimates: [true, false], ..rows[0].clone() };
    let mut state = State::new(reading(rows));
    press(&mut state, "s");
    assert_eq!(names(&state), ["192.0.2.6", "192.0.2.5"]);
    assert!(drawn(&state, 80, 11)[7].contains(" <36,000 "), "{:#?}", drawn(&state, 80, 11));
}

#[test]
fn keys_sort_filter_and_turn_to_other_tables() {
    let mut state = three();
    press(&mut state, "s");
    assert_eq!((names(&state).remove(0), state.by()), ("2001:db8::/64".to_owned(), By::Passed));
    press(&mut state, "s");
    assert_eq!((names(&state).remove(0), state.by()), ("2001:db8::/64".to_owned(), By::Refused));
    press(&mut state, "/192.0\n");
    assert_eq!(names(&state), ["192.0.2.66", "192.0.2.1"]);
    press(&mut state, "/\u{1b}");
    assert_eq!(names(&state).len(), 3);
    press(&mut state, "4");
    assert_eq!(names(&state), ["eth0"]);
    press(&mut state, "\t");
    assert_eq!(state.rows().len(), 3);
}

#[test]
fn only_a_confirmed_ban_or_allow_changes_anything() {
    let mut state = three();
    let prefix = "2001:db8::/64".parse().unwrap();
    assert_eq!(press(&mut state, "vb"), None);
    assert!(drawn(&state, 80, 24)[23].starts_with("drop all packets of 2001:db8::/64 for 10 minutes? y/n"));
    assert_eq!(press(&mut state, "n"), None);
    assert_eq!(press(&mut state, "by"), Some(Action::Set(Verdict::Ban, prefix)));
    assert_eq!(press(&mut state, "ay"), Some(Action::Set(Verdict::Allow, prefix)));
    // An interface cannot be banned.
    assert_eq!(press(&mut state, "4by"), None);
    assert_eq!(press(&mut state, "q"), Some(Action::End));
}

#[test]
fn after_a_reset_totals_count_from_then_on() {
    let mut state = three();
    press(&mut state, "0");
    let later = vec![source("192.0.2.66", [0, 0], [205, 71]), source("192.0.2.9", [0, 0], [30, 8])];
    state.show(reading(later));
    let totals: Vec<_> = state.rows().into_iter().map(|row| (row.name, row.total)).collect();
    assert_eq!(totals, [("192.0.2.66".to_owned(), [5, 1]), ("192.0.2.9".to_owned(), [0, 0])]);
    assert!(drawn(&state, 80, 24)[4].ends_with("totals since 0"));
}

#[test]
fn a_lost_instance_is_named_and_a_later_reading_replaces_that() {
    let mut state = three();
    state.fail("ratelimit is not attached".to_owned());
    assert_eq!(drawn(&state, 80, 24)[2], "ratelimit is not attached");
    assert!(state.rows().is_empty());
    state.show(reading(vec![source("192.0.2.1", [1, 1], [1, 1])]));
    assert_eq!(state.rows().len(), 1);
}

#[test]
fn control_characters_of_names_do_not_reach_the_terminal() {
    let state = State::new(reading(vec![source("a\u{1b}[2Jb", [0, 1], [0, 1])]));
    assert!(drawn(&state, 80, 24).concat().chars().all(|character| !character.is_control()));
}

proptest! {
    /// Numbers are whole, or their column is left out. A name that is cut has a mark.
    #[test]
    fn no_number_and_no_name_is_cut_without_a_mark(
        address: u128, bits in prop::sample::select(&[0u32, 48, 56, 64, 128][..]), width in 20u16..160,
        per_second in prop::array::uniform2(0u64..1_000_000_000_000),
        total in prop::array::uniform2(0u64..1_000_000_000_000), marks: [bool; 2],
    ) {
        let prefix = if bits == 128 { String::new() } else { format!("/{bits}") };
        let address = Ipv6Addr::from(address & u128::MAX.checked_shl(128 - bits).unwrap_or(0));
        let name = format!("{address}{prefix}");
        let row = Row { are_estimates: marks, are_totals_estimates: marks, ..source(&name, per_second, total) };
        let lines = drawn(&State::new(reading(vec![row])), width, 24);
        let [shown, line] = [&lines[5], &lines[6]];
        let first = line.split_whitespace().next().unwrap();
        prop_assert!(first == name || first.contains('…'), "{}", line);
        let numbers = [("passed/s", 0, per_second[0]), ("refused/s", 1, per_second[1])];
        let totals = [(" passed ", 0, total[0]), (" refused ", 1, total[1])];
        for (head, side, number) in numbers.into_iter().chain(totals) {
            let text = format!(" {}{}", if marks[side] { "~" } else { "" }, amount(number));
            prop_assert!(!format!("{shown} ").contains(head) || format!("{line} ").contains(&format!("{text} ")), "{}", line);
        }
    }
}

proptest! {
    // Each key draws a screen, so a case takes long.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_keys_and_no_size_are_a_problem(keys in "[a-z0-9/ ?\\t\\n\\x1b]{0,40}", width in 1u16..200, height in 1u16..60) {
        let mut state = three();
        for key in keys.chars() {
            press(&mut state, &key.to_string());
            drop(drawn(&state, width, height));
        }
    }
}
