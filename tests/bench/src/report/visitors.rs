//! A new visitor's chance, as tables.

use ratelimit_tests::Sources;

use crate::{
    flood::{KINDS, Kind, Protocol, Rate},
    measure::{
        noise::{median, quartiles},
        visitors::{
            Results, downloads::Downloaded, known::Known, layout::Sender, protection::Protection, visited::Visited,
        },
    },
    table::{Axis, Row, Table},
};

/// The flood of the summary.
const SUMMARY: Rate = Rate::PerSecond(200_000);
/// Multiple of the median in calm without protection, below which visitors feel no difference.
const CALM: f64 = 1.2;

/// Returns all tables.
pub(crate) fn tables(results: &Results) -> Vec<Table> {
    let kinds = KINDS.into_iter().filter(|kind| of(&results.visited, *kind, Sender::Same).next().is_some());
    let kinds: Vec<_> = kinds.filter(|kind| kind.sources == Sources::Endless).collect();
    let mut tables: Vec<_> = kinds.iter().flat_map(|kind| beside(&results.visited, *kind)).collect();
    tables.push(held(&results.visited, &kinds));
    tables.push(fastest(&results.visited, &kinds));
    tables.push(downloads(&results.downloaded));
    tables.push(known(&results.known));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Returns the figures that the page about floods has.
pub(crate) fn summary(results: &Results) -> Table {
    let visited = &results.visited;
    let [syn, udp] = [Protocol::Syn, Protocol::Udp]
        .map(|protocol| KINDS.into_iter().find(|kind| kind.protocol == protocol && kind.sources == Sources::Endless));
    let row = |protection: Protection| {
        let held = |kind: Option<Kind>| Some(most_held(visited, kind?, protection, &Visited::is_held)? / 1e3);
        let beside = find(visited, syn?, Sender::Same, SUMMARY, protection)?;
        let figures = [Some(100.0 * beside.share()), Some(beside.quantile(0.5)), held(syn), held(udp)];
        Some(Row { name: protection.name().to_owned(), figures: figures.to_vec(), is_drawn: false })
    };
    let columns = [
        "visitors of 100 beside 200,000 forged SYNs/s",
        "their median time in ms",
        "thousand forged SYNs/s that are held",
        "thousand forged UDP packets/s that are held",
    ];
    Table::plain("a new visitor's chance", columns, Protection::ALL.into_iter().filter_map(row).collect(), 1)
}

fn of(visited: &[Visited], kind: Kind, sender: Sender) -> impl Iterator<Item = &Visited> {
    visited.iter().filter(move |visited| visited.protocol == kind.protocol && visited.sender == sender)
}

/// Returns the tables of one flood.
fn beside(visited: &[Visited], kind: Kind) -> Vec<Table> {
    let share = |visited: &Visited| 100.0 * visited.share();
    let million = |row: fn(&Visited) -> f64| move |visited: &Visited| row(visited) / 1e6;
    let about = |table: Table, about| Table { about, ..table };
    let mut frames =
        by_rate(visited, kind, "million packets per second of the flood: sent", 2, million(|row| row.sent));
    let received = by_rate(visited, kind, "", 2, million(|row| row.received));
    frames.title = format!("million packets per second of the flood, sent and received: {kind}");
    frames.rows = frames
        .rows
        .into_iter()
        .zip(received.rows)
        .flat_map(|(sent, received)| {
            [(sent, "sent"), (received, "received")]
                .map(|(row, what)| Row { name: format!("{}, {what}", row.name), ..row })
        })
        .collect();
    vec![
        about(by_rate(visited, kind, "visitors of 100 who got the page within a second", 0, share), ABOUT),
        by_rate(visited, kind, "median time of a page in ms", 2, |visited| visited.quantile(0.5)),
        by_rate(visited, kind, "99th percentile of that time in ms", 1, |visited| visited.quantile(0.99)),
        frames,
    ]
}

/// Returns a table of one figure by protection and rate.
fn by_rate(visited: &[Visited], kind: Kind, what: &str, digits: usize, figure: impl Fn(&Visited) -> f64) -> Table {
    let mut rates: Vec<Rate> = Vec::new();
    for visited in of(visited, kind, Sender::Same) {
        if !rates.contains(&visited.rate) {
            rates.push(visited.rate);
        }
    }
    let row = |protection: Protection| {
        let at = |rate: &Rate| find(visited, kind, Sender::Same, *rate, protection).map(&figure);
        Row { name: protection.name().to_owned(), figures: rates.iter().map(at).collect(), is_drawn: false }
    };
    Table {
        title: format!("{what}, beside a flood: {kind}"),
        about: "",
        plot: None,
        axis: Axis::Linear,
        columns: rates.iter().map(Rate::to_string).collect(),
        rows: Protection::ALL.map(row).into_iter().filter(|row| row.figures.iter().any(Option::is_some)).collect(),
        digits,
        references: &[],
    }
}

fn find(visited: &[Visited], kind: Kind, sender: Sender, rate: Rate, protection: Protection) -> Option<&Visited> {
    of(visited, kind, sender).find(|visited| visited.rate == rate && visited.protection == protection)
}

/// Returns the fastest flood that each protection holds, and the ratio of the product to `synproxy`.
fn held(visited: &[Visited], kinds: &[Kind]) -> Table {
    let of_kind = |kind: &Kind| {
        let calm = find(visited, *kind, Sender::Same, Rate::None, Protection::None);
        let calm = calm.map_or(f64::MAX, |visited| CALM * visited.quantile(0.5));
        let row = |what: &str, is_held: &dyn Fn(&Visited) -> bool| {
            let most = Protection::ALL.map(|protection| most_held(visited, *kind, protection, is_held));
            let [_, _, ours, proxy, _] = most;
            let thousands = most.into_iter().map(|most| most.map(|most| most / 1e3));
            let ratio = ours.zip(proxy.filter(|proxy| *proxy > 0.0)).map(|(ours, proxy)| ours / proxy);
            Row { name: format!("{kind}{what}"), figures: thousands.chain([ratio]).collect(), is_drawn: false }
        };
        let as_in_calm =
            |visited: &Visited| visited.is_held() && (visited.rate == Rate::None || visited.quantile(0.5) <= calm);
        [row(": held", &Visited::is_held), row(": held, and the median as in calm", &as_in_calm)]
    };
    let [none, unknown, ours, proxy, drop] = Protection::ALL.map(Protection::name);
    let columns = [none, unknown, ours, proxy, drop, "ratio of `--prove tcp` to `synproxy`"];
    let title = "thousand packets per second of the fastest flood that is held";
    Table { about: HELD, ..Table::plain(title, columns, kinds.iter().flat_map(of_kind).collect(), 1) }
}

/// Returns how many packets per second arrived of the fastest flood that a protection holds.
fn most_held(
    visited: &[Visited],
    kind: Kind,
    protection: Protection,
    is_held: &dyn Fn(&Visited) -> bool,
) -> Option<f64> {
    let rates = of(visited, kind, Sender::Same).filter(|visited| visited.protection == protection);
    rates.filter(|visited| is_held(visited)).map(|visited| visited.received).reduce(f64::max)
}

/// Returns what visitors get beside the fastest flood of another CPU.
fn fastest(visited: &[Visited], kinds: &[Kind]) -> Table {
    let of_kind = |kind: &Kind| {
        let kind = *kind;
        Protection::ALL.into_iter().filter_map(move |protection| {
            let [calm, flood] =
                [Rate::None, Rate::Most].map(|rate| find(visited, kind, Sender::Other, rate, protection));
            let (calm, flood) = (calm?, flood?);
            let medians = [calm, flood].map(|visited| visited.quantile(0.5));
            let figures = [
                100.0 * calm.share(),
                100.0 * flood.share(),
                medians[0],
                medians[1],
                medians[1] / medians[0],
                flood.quantile(0.99),
                flood.received / 1e6,
                flood.lost as f64,
            ];
            let name = format!("{kind}, {}", protection.name());
            Some(Row { name, figures: figures.map(Some).to_vec(), is_drawn: false })
        })
    };
    let columns = [
        "visitors of 100 in calm",
        "beside the flood",
        "median in ms in calm",
        "beside the flood",
        "ratio",
        "99th percentile in ms",
        "million packets/s of the flood received",
        "frames of visitors lost in their ring",
    ];
    let title = "new visitors beside the fastest flood that another CPU sends";
    Table { about: FASTEST, ..Table::plain(title, columns, kinds.iter().flat_map(of_kind).collect(), 2) }
}

fn downloads(downloaded: &[Downloaded]) -> Table {
    let row = |row: &Downloaded| {
        let kind = KINDS.into_iter().find(|kind| kind.protocol == row.protocol && kind.sources == Sources::Endless);
        let name = kind.map_or(String::new(), |kind| format!("{kind}, {}", row.rate));
        let dropped = row.dropped();
        let figures = [row.flood / 1e3, row.bytes as f64 / 1e6, row.sent as f64, dropped as f64, row.lost as f64];
        Row { name, figures: figures.map(Some).to_vec(), is_drawn: false }
    };
    let columns = [
        "thousand packets/s of the flood received",
        "MB downloaded",
        "segments of the clients",
        "dropped by ratelimit",
        "lost in their ring",
    ];
    let title = "established downloads beside a flood, `--unknown 1k/s --prove tcp`";
    Table { about: DOWNLOADS, ..Table::plain(title, columns, downloaded.iter().map(row).collect(), 0) }
}

fn known(known: &[Known]) -> Table {
    let mut sources: Vec<_> = known.iter().map(|known| known.sources).collect();
    sources.sort_unstable();
    sources.dedup();
    let row = |sources: Sources| {
        let loads: Vec<_> = known.iter().filter(|known| known.sources == sources).collect();
        let all = |value: fn(&Known) -> f64| loads.iter().map(|known| value(known)).collect::<Vec<_>>();
        let [lower, middle, upper] = quartiles(&all(|known| known.with / known.without));
        let figures = [median(&all(|known| known.without)), median(&all(|known| known.with)), lower, middle, upper];
        let name = if sources == Sources::Count(1) { "one source".to_owned() } else { format!("{sources} sources") };
        Row { name, figures: figures.map(Some).to_vec(), is_drawn: false }
    };
    let columns =
        ["`--unknown 1k/s`", "`--unknown 1k/s --prove tcp`", "lower quartile of the ratio", "median", "upper quartile"];
    let title = "nanoseconds per packet of known sources above an empty program";
    Table { about: KNOWN, ..Table::plain(title, columns, sources.into_iter().map(row).collect(), 2) }
}

/// What the first tables show.
const ABOUT: &str = "\
100 visitors, each with a new address, fetch a page of 100 kB over HTTP, one every 16 ms. Each column is a rate of a
flood in which each packet has a new forged source. Web server, visitors and flood share one CPU. The flood comes ahead
of all other work, in a burst per millisecond, as a network card interrupts all other work. What the CPU has no time for
does not arrive. *Plain XDP drop* knows the visitors, and drops all else: no protection can do more. `synproxy` has the
rules and settings of its manual. Each figure is a single sample of 100 visitors. Visitors without the page count with
one second.";

/// What a flood that is held is.
const HELD: &str = "\
A flood is *held* if at least 95 of 100 visitors got the page within a second, and at least 90 % of the packets arrived.
A network card would lose the packets that do not arrive, also those of visitors.
*As in calm*: the median time is also at most 1.2 times the one without flood and protection. A figure of 0 is calm
alone, and an empty field not even that.";

/// What the table of the fastest flood shows.
const FASTEST: &str = "\
Another CPU sends as fast as it can. Its frames have a ring of their own, like a queue of a network card. The CPU of the
server and its visitors empties both, every 50 µs. What does not fit into the flood's ring is lost before any program
sees it. So the figures of this table do not compare the speed of protections.";

/// What the table of downloads shows.
const DOWNLOADS: &str = "\
Eight clients, whose connections are older than the flood, download 16 MB each at the same time. Another CPU sends the
flood, as above. Each socket counts its segments. Those that clients sent and the server did not receive were lost in
their ring, or dropped by ratelimit.";

/// What the table of known sources shows.
const KNOWN: &str = "\
Sources are known, and within their limit. Their packets do not ask for proofs, so the ratio should be 1. Loads of the
program differ by the placement of its code.";
