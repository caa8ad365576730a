//! The figures of the README: where a botnet is.

use ratelimit_tests::Sources;

use crate::{
    configurations::{BOTNET, DEFAULT, REFERENCE},
    measure::{
        attack::{DENIED_BY_RULE, HASHLIMIT, LIMITED, NFTABLES, ONE_LINE, PLAIN_DROP},
        limiters::Limiter,
    },
    results::{Attack, Live},
    state::State,
    table::{Row, Table},
};

/// What the table and the picture are.
const ABOUT: &str = "\
Million 60-byte frames per second on one CPU, through veth, from 128,000 sources. *Passing*: the packets are within the
limit. After the decision, each program drops them, so that the network stack adds no cost. *Endless*: each packet has a
new source. *Refused*: each source may send one packet per minute. The last column is the part of a plain drop. An
empty field was not measured.
";

/// Below the table.
const PICTURE: &str = "\
The picture shows what users of a web server get beside a flood of TCP SYN packets from 128,000 sources. The server, its
users and the reception of the flood share one CPU.

![Pages per second of a web server by the rate of a flood](docs/measurements/users-syn-128k.svg)
";

/// Programs as the README names them, with their rows in the tables of packets that pass and of floods.
const PROGRAMS: [(&str, Option<&str>, Option<&str>); 7] = [
    ("XDP program that drops without a decision", Some(Limiter::Floor.name()), Some(PLAIN_DROP)),
    ("the same, with one write to a random one of 131,072 cache lines", None, Some(ONE_LINE)),
    ("**ratelimit**", Some(DEFAULT.name), Some(LIMITED)),
    ("**ratelimit**, sources denied by a rule", None, Some(DENIED_BY_RULE)),
    ("ratelimit `--front off`: one map entry per source, the usual XDP design", Some(REFERENCE), None),
    ("nftables, limit per address at the ingress hook", Some(Limiter::Nftables.name()), Some(NFTABLES)),
    ("iptables `hashlimit`", Some(Limiter::Iptables.name()), Some(HASHLIMIT)),
];

/// Returns the part of the README.
pub(super) fn part(live: &[Live], attacks: &[Attack]) -> String {
    let passing = |name, sources| {
        let mut rows = live.iter().filter(|row| row.state == State::Passing && row.sources == sources);
        Some(rows.find(|row| Some(row.limiter) == name)?.packets_per_second / 1e6)
    };
    let refused = |name| {
        let mut rows = attacks.iter().filter(|row| row.sources == BOTNET);
        Some(rows.find(|row| Some(row.receiver) == name)?.later / 1e6)
    };
    let plain = refused(Some(PLAIN_DROP));
    let row = |(name, within, flood): (&str, _, _)| {
        let part = || Some(refused(flood)? / plain?);
        let figures = vec![passing(within, BOTNET), passing(within, Sources::Endless), refused(flood), part()];
        Row { name: name.to_owned(), figures, is_drawn: false }
    };
    let columns = ["passing", "passing, endless", "refused", "of a plain drop"];
    let table = Table::plain("", columns, PROGRAMS.map(row).into(), 2);
    format!("{ABOUT}\n{}\n{PICTURE}", table.markdown())
}
