//! The table `[fleet]`.

use std::{fs, os::unix::fs::PermissionsExt as _};

use ratelimit_fleet::{
    address::{Address, Kind},
    table::{Accepts, Limits, OnLoss, Weight},
    way::Place,
};

use super::*;

fn fleet(keys: &str) -> fleet::Fleet {
    parse(&format!("interfaces = []\n[fleet]\n{keys}")).unwrap().fleet.unwrap()
}

#[test]
fn one_line_is_enough_and_each_key_has_a_default() {
    let fleet = fleet("engine = \"redis://10.0.0.5:6379\"");
    assert_eq!(fleet.engine.to_string(), "10.0.0.5:6379");
    assert!(!fleet.name.is_empty());
    assert_eq!((fleet.terms.period, fleet.terms.least), (0.2, 1.0 / 1024.0));
    assert_eq!((fleet.weight, fleet.limits, fleet.on_loss), (Weight::Fixed(1.0), Limits::Default, OnLoss::Local));
    assert_eq!((fleet.tells_bans, fleet.accepts), (false, Accepts { limits: true, bans: false, rules: false }));
}

#[test]
fn a_file_with_a_fleet_needs_leases_and_one_without_needs_none() {
    let leases = |text| parse(text).unwrap().requested.leases;
    assert_eq!(leases("interfaces = []\n[fleet]\nengine = \"redis://10.0.0.5\""), Some(true));
    assert_eq!(leases("interfaces = []"), None);
    assert_eq!(leases("interfaces = []\n[fleet]\nengine = \"redis://10.0.0.5\"\naccept = \"bans\""), None);
}

#[test]
fn each_key_is_read() {
    let fleet = fleet(
        "engine = \"redis://10.0.0.5\"\nname = \"web1\"\nperiod = \"2s\"\nweight = 0.5\nlimits = \"all\"\n\
         on-loss = \"hold\"\nmin-share = 0.01\nshare = [\"bans\"]\naccept = [\"bans\"]\n",
    );
    assert_eq!((fleet.name.as_str(), fleet.terms.period, fleet.terms.least), ("web1", 2.0, 0.01));
    assert_eq!((fleet.weight, fleet.limits, fleet.on_loss), (Weight::Fixed(0.5), Limits::All, OnLoss::Hold));
    assert_eq!((fleet.tells_bans, fleet.accepts), (true, Accepts { limits: false, bans: true, rules: false }));
}

#[test]
fn keys_that_differ_are_named() {
    let before = fleet("engine = \"redis://10.0.0.5\"\nname = \"a\"\nmin-share = 0.01\n");
    let same = fleet("engine = \"redis://10.0.0.5:6379\"\nname = \"a\"\nmin-share = 0.01\nperiod = \"200ms\"\n");
    assert!(before.differences(&same).is_empty());
    let other = fleet(
        "engine = \"redis://user:secret@10.0.0.5\"\nname = \"b\"\nperiod = \"2s\"\nweight = 0.5\nlimits = \"all\"\n\
         share = \"bans\"\naccept = \"rules\"\nstart = \"share\"\non-loss = \"hold\"\n",
    );
    let all = ["engine", "name", "period", "min-share", "weight", "limits", "share", "accept", "start", "on-loss"];
    assert_eq!(before.differences(&other), all);
}

#[test]
fn each_wrong_value_is_reported_with_its_place() {
    for (keys, expected) in [
        ("period = \"1s\"", "2:1: [fleet]: engine is missing"),
        ("engine = \"gosip\"", "3:10: \"gosip\": expected \"gossip\", or the URL of a server: redis://HOST:PORT, or "),
        (
            "engine = [\"redis://10.0.0.5\", \"10.0.0.6\"]\nservers = \"cluster\"",
            "3:10: [\"redis://10.0.0.5\", \"10.0.0.6\"]: expected a URL such as redis://10.0.0.1:6379: number 2 of 2 is not a URL",
        ),
        ("engine = \"http://10.0.0.5\"", "3:10: \"http://10.0.0.5\": expected \"gossip\", or the URL of a server: "),
        (
            "engine = \"redis://10.0.0.5/x\"",
            "3:10: \"redis://10.0.0.5/x\": expected a URL such as redis://10.0.0.1:6379: Invalid database number",
        ),
        (
            "engine = \"redis://10.0.0.300\"",
            "3:10: \"redis://10.0.0.300\": expected a URL such as redis://10.0.0.1:6379: 10.0.0.300 is no IPv4 address",
        ),
        ("engine = \"redis://10.0.0.5\"\nperiod = \"1ms\"", "4:10: \"1ms\": expected a time from 50ms to 10s"),
        ("engine = \"redis://10.0.0.5\"\nweight = 0", "4:10: 0: expected a number from 0.01 to 100, or load"),
        ("engine = \"redis://10.0.0.5\"\nmin-share = 2", "4:13: 2: expected a part from 0.000016 to 1"),
        ("engine = \"redis://10.0.0.5\"\nname = \"a b\"", "4:8: \"a b\": expected 1 to 64 letters"),
        ("engine = \"redis://10.0.0.5\"\nlimits = \"some\"", "4:10: \"some\": expected one of default, all"),
        ("engine = \"redis://10.0.0.5\"\nuser = \"a\"", "4:8: \"a\": a user needs a password: add password-file"),
        ("engine = \"redis://10.0.0.5\"\npassword-file = \"x\"", "4:17: \"x\": expected an absolute path"),
        ("engine = \"redis://10.0.0.5\"\nshare = \"rules\"", "4:9: \"rules\": expected one of bans"),
        ("engine = \"redis://10.0.0.5\"\naccept = []", "4:10: []: the list is empty: add limits, bans or rules"),
        ("engine = []", "2:1: [fleet]: engine is missing"),
        ("engine = \"redis://10.0.0.5\"\nservers = \"sentinel\"", "4:11: \"sentinel\": sentinels know several servers"),
        ("engine = \"redis://10.0.0.5\"\nmaster = \"a\"", "4:10: \"a\": only sentinels know it"),
        ("engine = \"redis://10.0.0.5\"\npeers = []", "4:9: []: only gossip has it: set engine = \"gossip\""),
        ("engine = \"redis://10.0.0.5\"\nlisten = \"10.0.0.1\"", "4:10: \"10.0.0.1\": only gossip has it"),
        ("engine = \"gossip\"", "3:10: \"gossip\": gossip needs password-file, unless listen is a loopback"),
        ("engine = \"gossip\"\nlisten = \"0.0.0.0:1\"", "3:10: \"gossip\": gossip needs password-file"),
        (
            "engine = [\"gossip\", \"redis://10.0.0.5\"]",
            "3:10: [\"gossip\", \"redis://10.0.0.5\"]: gossip has no server: remove",
        ),
        ("engine = \"gossip\"\nuser = \"a\"", "4:8: \"a\": gossip has no server: remove this key"),
        ("engine = \"gossip\"\nservers = \"single\"", "4:11: \"single\": gossip has no server"),
        ("engine = \"gossip\"\nmaster = \"a\"", "4:10: \"a\": gossip has no server"),
        ("engine = \"gossip\"\nlisten = \"web\"", "4:10: \"web\": expected an address of this host"),
        ("engine = \"gossip\"\nlisten = \"127.0.0.1\"\non-loss = \"hold\"", "5:11: \"hold\": gossip finds out too"),
        ("engine = \"gossip\"\nlisten = \"127.0.0.1\"\nshare = \"bans\"", "5:9: \"bans\": gossip tells no bans"),
        ("engine = \"gossip\"\nlisten = \"127.0.0.1\"\naccept = \"bans\"", "5:10: \"bans\": gossip tells no bans"),
        ("engine = \"gossip\"\nlisten = \"127.0.0.1\"\naccept = [\"limits\", \"rules\"]", "5:10: "),
        ("engine = \"gossip\"\nca-file = \"/ca\"", "4:11: \"/ca\": gossip has no server: remove this key"),
        ("engine = \"gossip\"\nlisten = \"127.0.0.1\"\npeers = [\"a b\"]", "5:9: "),
        ("engine = \"redis://10.0.0.5\"\nperods = \"1s\"", "4:1: perods: unknown key: did you mean period?"),
    ] {
        let [problem] = &problems(&format!("interfaces = []\n[fleet]\n{keys}"))[..] else { panic!("{keys}") };
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn the_password_comes_from_a_file_that_others_cannot_read() {
    let path = std::env::temp_dir().join(format!("ratelimit-password-{}", std::process::id()));
    fs::write(&path, "secret\n").unwrap();
    let text = format!("engine = \"redis://10.0.0.5\"\npassword-file = \"{}\"", path.display());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let url = ["redis://10.0.0.5".to_owned()];
    let with_password = Address::new(&url, Kind::Single, None, Some("secret".to_owned())).unwrap();
    assert_eq!(fleet(&text).engine, Place::Server(with_password));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    let [problem] = &problems(&format!("interfaces = []\n[fleet]\n{text}"))[..] else { panic!() };
    assert!(problem.contains("every user of this machine has access to it"), "{problem}");
    fs::remove_file(&path).unwrap();
}

#[test]
fn gossip_needs_other_hosts_and_a_password_of_some_length() {
    let path = std::env::temp_dir().join(format!("ratelimit-gossip-{}", std::process::id()));
    let text = format!(
        "engine = \"gossip\"\nlisten = \"10.0.0.1\"\npeers = [\"10.0.0.2\", \"web:1\"]\npassword-file = \"{}\"",
        path.display()
    );
    for (password, is_good) in [("fifteen-letters", false), ("sixteen--letters", true)] {
        fs::write(&path, password).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let file = parse(&format!("interfaces = []\n[fleet]\n{text}"));
        assert_eq!(file.is_ok(), is_good, "{password}");
    }
    let engine = fleet(&text).engine;
    assert_eq!(engine.to_string(), "gossip with 10.0.0.2:7947, web:1");
    fs::write(&path, "seventeen-letters").unwrap();
    assert_ne!(fleet(&text).engine, engine);
    fs::remove_file(&path).unwrap();
}
