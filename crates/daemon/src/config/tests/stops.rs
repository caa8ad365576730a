//! The table `[stops]`.

use super::*;
use crate::config::daemon::stops::Mode;

#[test]
fn a_table_has_a_socket_its_group_and_proxies() {
    let text = "interfaces = []\n[stops]\nsocket = \"/run/stops/socket\"\ngroup = \"check\"\nmode = \"shadow\"\n\
                trusted-proxies = [\"192.0.2.0/24\", \"2001:db8::/48\"]\n";
    let stops = parse(text).unwrap().stops.unwrap();
    let proxies: Vec<_> = stops.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!((stops.socket.to_str(), stops.group.as_deref()), (Some("/run/stops/socket"), Some("check")));
    assert_eq!(proxies, ["192.0.2.0/24", "2001:db8::/48"]);
    let least = parse("interfaces = []\n[stops]\nsocket = \"/run/s\"\n").unwrap().stops.unwrap();
    assert_eq!((least.group, least.mode, least.trusted_proxies), (None, Mode::Shadow, Vec::new()));
    let on = parse("interfaces = []\n[stops]\nsocket = \"/run/s\"\nmode = \"on\"\n").unwrap().stops.unwrap();
    assert_eq!(on.mode, Mode::On);
    assert_eq!(parse("interfaces = []").unwrap().stops, None);
}

#[test]
fn a_key_that_takes_words_takes_neither_true_nor_false() {
    for (text, expected) in [
        ("[stops]\nsocket = \"/run/s\"\nmode = true", "4:8: true: expected one of shadow, on, in quotes"),
        ("[stops]\nsocket = \"/run/s\"\nmode = [false]", "4:8: [false]: expected one of shadow, on, in quotes"),
        ("[interface.eth0]\nmode = true", "3:8: true: expected one of auto, native, generic, in quotes"),
    ] {
        assert_eq!(problems(&format!("interfaces = []\n{text}\n")), [expected], "{text}");
    }
    assert!(parse("interfaces = []\n[settings]\nshadow = true\n").is_ok());
}

#[test]
fn a_problem_has_its_place() {
    let of = |lines: &str| problems(&format!("interfaces = []\n[stops]\n{lines}\n"));
    for (lines, place) in [
        ("mode = \"shadow\"", "2:1: "),
        ("socket = \"here\"", "3:10: "),
        ("socket = \"/run/s\"\nmode = \"off\"", "4:8: "),
        ("socket = \"/run/s\"\ntrusted-proxies = [\"192.0.2.1/24\"]", "4:"),
        ("socket = \"/run/s\"\nproxies = []", "4:1: "),
    ] {
        let [problem] = &of(lines)[..] else { panic!("{lines}: {:?}", of(lines)) };
        assert!(problem.starts_with(place), "{problem}");
    }
}
