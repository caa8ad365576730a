//! The engine of a fleet: the CPU time of its script on a real server, and the memory of its records.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use ratelimit_common::fleet::share::{Limit, Report, Terms};
use ratelimit_fleet::{
    address::{Address, Kind},
    engine::{Engine, Message},
    key::Key,
};
use ratelimit_tests::{Redis, Sandbox};
use redis::aio::MultiplexedConnection;

use crate::{
    measure::{Effort, cpu_time::cpu_seconds, noise::quartiles},
    table::{Row, Table},
};

const LIMIT: Limit = Limit { rate: 1_000.0, burst: 100.0 };
/// No call may fail because another program uses the CPU.
const DEADLINE: Duration = Duration::from_secs(5);

/// Sources that are reported in turn.
const SOURCES: u32 = 10_000;
/// Sources whose records are weighed.
const WEIGHED: u32 = 100_000;
/// The most messages of a call.
const BATCH: usize = 250;

/// Seconds of a sample. The kernel counts CPU time in hundredths of a second.
const SECONDS: f64 = 2.0;
/// The same for figures that are only roughly right.
const FEW_SECONDS: f64 = 0.5;

/// One way of reporting.
struct Case {
    name: &'static str,
    /// Messages of a call.
    batch: usize,
    /// The first source. Those below and over their limit differ.
    first: Ipv4Addr,
    /// What each report contains.
    report: Report,
}

const BELOW: Report = Report { offered: 1.0, admitted: 1.0, own: 1.0, weight: 1.0, record: 0 };
const OVER: Report = Report { offered: 3_000.0, admitted: 1_000.0, own: 3_000.0, ..BELOW };
const FIRST_BELOW: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
const FIRST_OVER: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 0);

static CASES: [Case; 4] = [
    Case { name: "250 in a call, sources below their limit", batch: BATCH, first: FIRST_BELOW, report: BELOW },
    Case { name: "250 in a call, sources over their limit", batch: BATCH, first: FIRST_OVER, report: OVER },
    Case { name: "one in a call, sources below their limit", batch: 1, first: FIRST_BELOW, report: BELOW },
    Case { name: "one in a call, sources over their limit", batch: 1, first: FIRST_OVER, report: OVER },
];

/// What was measured.
pub(super) struct Results {
    version: String,
    /// Records per second of one core in each round, by case.
    speeds: Vec<(&'static str, Vec<f64>)>,
    /// Bytes of a record: what the whole server uses more, and what it tells of one key.
    bytes: [f64; 2],
}

/// Starts a server and measures it.
pub(super) fn run(effort: &Effort) -> Result<Results> {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    let server = redis.process.child.id();
    let seconds = if effort.has_special { SECONDS } else { FEW_SECONDS };
    let rounds = effort.rounds;
    Redis::at_the_peer(&sandbox, async || measure(rounds, seconds, server).await)
}

async fn measure(rounds: usize, seconds: f64, server: u32) -> Result<Results> {
    let address = Address::new(&[Redis::url()], Kind::Single, None, None)?;
    let engine = Engine::connect(&address, DEADLINE).await?;
    let mut connection = redis::Client::open(Redis::url())?.get_multiplexed_async_connection().await?;
    let version = field(&info(&mut connection, "server").await?, "redis_version")?.to_owned();
    let bytes = weigh(&engine, &mut connection).await?;
    let mut speeds: Vec<_> = CASES.iter().map(|case| (case.name, Vec::new())).collect();
    for round in 1..=rounds {
        eprintln!("engine of a fleet, round {round} of {rounds}");
        for (case, (_, speeds)) in CASES.iter().zip(&mut speeds) {
            speeds.push(case.speed(&engine, server, seconds).await?);
        }
    }
    Ok(Results { version, speeds, bytes })
}

impl Case {
    /// Returns records per second of the server's CPU time.
    async fn speed(&self, engine: &Engine, server: u32, seconds: f64) -> Result<f64> {
        let mut messages = messages(self.first, SOURCES, self.report);
        // Records that exist, as those of a busy source do.
        for messages in messages.chunks_mut(BATCH) {
            self.call(engine, messages).await?;
        }
        let (begin, before, mut records) = (Instant::now(), cpu_seconds(server)?, 0);
        while begin.elapsed().as_secs_f64() < seconds {
            let next = records % messages.len();
            self.call(engine, &mut messages[next..next + self.batch]).await?;
            records += self.batch;
        }
        Ok(records as f64 / (cpu_seconds(server)? - before))
    }

    /// Reports, and notes which record has answered.
    async fn call(&self, engine: &Engine, messages: &mut [Message]) -> Result<()> {
        let answers = engine.call(&Terms::default(), messages).await?.answers;
        for (message, answer) in messages.iter_mut().zip(answers) {
            let needs_one = self.report.offered > LIMIT.rate;
            ensure!(answer.share.is_some() == needs_one, "{}: the engine answers {answer:?}", self.name);
            message.report.record = answer.record;
        }
        Ok(())
    }
}

/// Returns bytes of a record by both ways.
async fn weigh(engine: &Engine, connection: &mut MultiplexedConnection) -> Result<[f64; 2]> {
    // What owes most stays for the longest time.
    let messages = messages(FIRST_OVER, WEIGHED, Report { admitted: 1e6, ..OVER });
    // The server has the script, and buffers for such a call.
    engine.call(&Terms::default(), &messages[..BATCH]).await?;
    redis::cmd("FLUSHALL").arg("SYNC").exec_async(connection).await?;
    let before = used(connection).await?;
    for messages in messages.chunks(BATCH) {
        engine.call(&Terms::default(), messages).await?;
    }
    let after = used(connection).await?;
    let records: u32 = redis::cmd("DBSIZE").query_async(connection).await?;
    ensure!(records == WEIGHED, "the engine has {records} records of {WEIGHED}");
    let key = messages.first().context("there are no sources")?.key.as_str();
    let of_key: Option<u32> = redis::cmd("MEMORY").arg("USAGE").arg(key).query_async(connection).await?;
    let of_key = of_key.context("a record has expired too early")?;
    redis::cmd("FLUSHALL").arg("SYNC").exec_async(connection).await?;
    Ok([(after - before) / f64::from(WEIGHED), of_key.into()])
}

/// Returns a message for each source, those of one partition side by side.
fn messages(first: Ipv4Addr, sources: u32, report: Report) -> Vec<Message> {
    let of = |number| {
        let source = Ipv4Addr::from(u32::from(first) + number);
        Message { key: Key::of(&source.to_string(), &LIMIT), limit: LIMIT, report }
    };
    let mut messages: Vec<_> = (0..sources).map(of).collect();
    messages.sort_by(|one, other| one.key.as_str().cmp(other.key.as_str()));
    messages
}

/// Returns the bytes that the server uses.
async fn used(connection: &mut MultiplexedConnection) -> Result<f64> {
    Ok(field(&info(connection, "memory").await?, "used_memory")?.parse()?)
}

async fn info(connection: &mut MultiplexedConnection, section: &str) -> Result<String> {
    Ok(redis::cmd("INFO").arg(section).query_async(connection).await?)
}

/// Returns a field of what the server tells about itself.
fn field<'a>(info: &'a str, name: &str) -> Result<&'a str> {
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(of, _)| *of == name).map(|(_, value)| value.trim());
    found.with_context(|| format!("the server does not tell its {name}"))
}

impl Results {
    /// Returns the tables of speed and memory.
    pub(super) fn tables(&self) -> Vec<Table> {
        let speeds = self.speeds.iter().map(|(name, speeds)| Row {
            name: (*name).to_owned(),
            figures: quartiles(speeds).map(Some).to_vec(),
            is_drawn: false,
        });
        let title = format!("reports per second and core of the engine, Redis {}", self.version);
        let columns = ["lower quartile", "median", "upper quartile"];
        let bytes =
            Row { name: "100,000 IPv4 sources".to_owned(), figures: self.bytes.map(Some).to_vec(), is_drawn: false };
        vec![
            Table { about: SPEED, ..Table::plain(&title, columns, speeds.collect(), 0) },
            Table {
                about: MEMORY,
                ..Table::plain("bytes of a record in the engine", ["used_memory", "MEMORY USAGE"], vec![bytes], 0)
            },
        ]
    }
}

/// What the first table shows.
const SPEED: &str = "\
A real server runs the product's script, and the product's client calls it over one connection. A second of a core is
a second of the server's CPU time in user and kernel mode. Each call waits for the answer to the call before. Sources
over their limit get shares, those below do not.";

/// What the second table shows.
const MEMORY: &str = "\
*used_memory*: what the whole server uses more, by record, with the tables of keys and of ends. *MEMORY USAGE*: what
the server tells of one record.";

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = "# Memory\r\nused_memory_rss:2\r\nused_memory:1\r\n";
        assert_eq!(field(info, "used_memory").ok(), Some("1"));
        assert!(field(info, "memory").is_err());
    }
}
