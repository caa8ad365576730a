//! An upgrade from and to a version that has other names for maps and fields.

use std::{collections::BTreeSet, fs, path::PathBuf};

use aya::{
    Pod,
    maps::{Array, Map, MapData, PerCpuArray},
};
use ratelimit_common::{
    maps::{interface_counters::Counts, names, renamed::RENAMED_MAPS},
    meters::interface_capacity::Capacity,
};
use ratelimit_dataplane::pins::layout::PINS;
use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, send_raw};

use crate::receiver::alone;

/// Packets of a source until its sliding log refuses it for an hour.
const BURST: u64 = 5;

/// What an upgrade carries over in maps with other names.
#[derive(Debug, PartialEq)]
struct Contents {
    /// State of the budget of unknown sources.
    unknown: u64,
    /// Interface and packets per second of each capacity.
    capacities: Vec<(u32, u64)>,
    /// Packets in each place of the interface counters.
    counters: Vec<u64>,
}

impl Contents {
    fn read(sandbox: &Sandbox) -> Self {
        sandbox.victim(|| {
            let unknown: Array<_, u64> = Map::Array(pinned(names::UNKNOWN)).try_into().unwrap();
            let counters: PerCpuArray<_, Counts> =
                Map::PerCpuArray(pinned(names::INTERFACE_COUNTERS)).try_into().unwrap();
            let packets = |counts: &Counts| counts.done.iter().map(|count| count.packets).sum::<u64>();
            let capacities = entries::<Capacity>(names::INTERFACE_CAPACITIES).into_iter();
            Self {
                unknown: unknown.get(&0, 0).unwrap(),
                capacities: capacities
                    .filter(|capacity| capacity.interface != 0)
                    .map(|capacity| (capacity.interface, capacity.per_second))
                    .collect(),
                counters: (0..counters.len())
                    .map(|place| counters.get(&place, 0).unwrap().iter().map(packets).sum())
                    .collect(),
            }
        })
    }
}

fn entries<T: Pod>(name: &str) -> Vec<T> {
    let map: Array<_, T> = Map::Array(pinned(name)).try_into().unwrap();
    map.iter().map(Result::unwrap).collect()
}

/// Opens a map under the name that either version gives it.
fn pinned(name: &str) -> MapData {
    let old = RENAMED_MAPS.iter().find(|(_, new)| *new == name).map(|(old, _)| *old);
    let paths = [Some(name), old].into_iter().flatten().map(|name| PathBuf::from(PINS).join(name));
    MapData::from_pin(paths.into_iter().find(|path| path.exists()).unwrap()).unwrap()
}

fn pins(sandbox: &Sandbox) -> BTreeSet<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    sandbox.victim(|| fs::read_dir(PINS).unwrap().map(name).collect())
}

#[test]
fn an_upgrade_keeps_the_contents_of_renamed_maps_and_no_old_pin() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let (this, other) = (Ratelimit::new(&sandbox), Ratelimit::other(&sandbox));
    sandbox.ip("link add eth1 type veth peer name far1");
    for link in ["eth1", "far1"] {
        sandbox.ip(&format!("link set {link} addrgenmode none"));
        sandbox.ip(&format!("link set {link} up"));
    }
    this.ok("attach eth0 eth1 --capacity 5k/s --unknown 1k/s --own 3k/s --max-sliding-logs 64 --cells 4096");
    this.ok(&format!("limit set 10.9.0.7 --packets {BURST}/h --algorithm sliding-log"));
    let frame = Frame::udp([10, 9, 0, 7], 9).bytes();
    let send = || Flood::of(frame.clone()).send(&sandbox, 2 * BURST);
    let passed = |ratelimit: &Ratelimit<'_>| {
        let sources = ratelimit.json("sources");
        let of_source = |row: &&serde_json::Value| row["source"] == "10.9.0.7";
        let row = sources.as_array().unwrap().iter().find(of_source).unwrap().clone();
        row["passed"]["packets"].as_u64().unwrap()
    };
    send();
    assert_eq!(passed(&this), BURST);
    Flood::of(Frame::udp([10, 9, 0, 66], 9).bytes()).sources(20).send(&sandbox, 200);
    sandbox.victim(|| send_raw("far1", &Frame::udp([10, 9, 0, 8], 9).bytes(), 30));

    let known = |name: &&str| pins(&sandbox).contains(*name);
    for new in [&other, &this] {
        let before = Contents::read(&sandbox);
        assert!(before.unknown != 0, "{before:?}");
        assert_eq!(before.capacities.len(), 2, "{before:?}");
        assert!(before.counters.iter().filter(|packets| **packets != 0).count() >= 2, "{before:?}");
        assert!(new.fails("status").contains("is of another version"));
        new.ok("upgrade");
        assert_eq!(Contents::read(&sandbox), before);
        assert_eq!(new.json("status")["unknown"]["per_second"], 1_000);
        assert_eq!(new.json("status")["own"]["per_second"], 3_000);
        let (olds, news): (Vec<&str>, Vec<&str>) =
            RENAMED_MAPS.iter().filter(|(_, name)| names::PINNED.contains(name)).copied().unzip();
        let (there, gone) = if std::ptr::eq(new, &other) { (olds, news) } else { (news, olds) };
        assert!(there.iter().all(known) && !gone.iter().any(known), "{:?}", pins(&sandbox));
        // The log of the source is full.
        send();
        assert_eq!(passed(new), BURST);
    }
    let expected = names::PINNED.into_iter().chain(["links", "program"]).map(str::to_owned).collect();
    assert_eq!(pins(&sandbox), expected);

    // Pins of the other version are removed too.
    other.ok("upgrade");
    this.ok("detach --all");
    assert!(!sandbox.victim(|| fs::exists(PINS).unwrap()));
}

/// Leaves what a version switch leaves when it is killed: each renamed map under both names, and a folder `next`.
fn leave_both_names(sandbox: &Sandbox) {
    sandbox.victim(|| {
        let pins = PathBuf::from(PINS);
        for (old, new) in RENAMED_MAPS.iter().filter(|(_, new)| names::PINNED.contains(new)) {
            let (from, to) = if pins.join(old).exists() { (old, new) } else { (new, old) };
            MapData::from_pin(pins.join(from)).unwrap().pin(pins.join(to)).unwrap();
        }
        fs::create_dir(pins.join("next")).unwrap();
    });
}

#[test]
fn pins_of_another_version_are_removed_only_by_the_version_in_use() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let (this, other) = (Ratelimit::new(&sandbox), Ratelimit::other(&sandbox));
    let (olds, news): (Vec<&str>, Vec<&str>) =
        RENAMED_MAPS.iter().filter(|(_, name)| names::PINNED.contains(name)).copied().unzip();
    let known = |name: &&str| pins(&sandbox).contains(*name);

    other.ok("attach eth0 --packets 1000/s");
    leave_both_names(&sandbox);
    assert!(this.fails("limit set 10.9.0.7 --packets 5/h").contains("is of another version"));
    assert!(olds.iter().all(known), "{:?}", pins(&sandbox));
    other.ok("limit list");
    assert!(olds.iter().all(known) && !news.iter().any(known), "{:?}", pins(&sandbox));

    this.ok("upgrade");
    leave_both_names(&sandbox);
    this.ok("limit list");
    assert!(news.iter().all(known) && !olds.iter().any(known), "{:?}", pins(&sandbox));
    this.ok("detach --all");
}
