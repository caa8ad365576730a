//! What clients have used on all servers of a fleet, in a real Redis.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ratelimit_fleet::{
    address::{Address, Kind},
    engine::Engine,
    error::Error,
    kept::usage::{Batch, Bounds, Row, Store, part},
};
use ratelimit_limiter::{Algorithm, Limit, Limiter, Rate, Rule};
use ratelimit_server::usage::{Pair, Recorder, SharedFound, SharedReader, SharedUsage, SharedWriter, Step};
use ratelimit_tests::{Folder, Ratelimit, Redis, Sandbox, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use super::member::{Member, ask_engine, at_the_engine, fleet};

/// A rule that admits three requests of a user within a day.
const RULE: &str = "[[check]]\nname = \"daily\"\nmatch = { operation = \"pay\" }\nkey = [\"user\"]\nlimits = \"3/d\"\n\
                    algorithm = \"fixed-window\"\n";
const USAGE: &str = "usage = \"fleet\"\nusage-days = 7\n";

fn start(sandbox: &Sandbox, port: u16) -> Member<'_> {
    let mut member = Member::start(sandbox, port, Folder::new(), USAGE, &(fleet(port) + RULE));
    member.await_line("answers: limits are shared");
    member
}

/// Returns what clients have used, by the command.
fn usage(sandbox: &Sandbox, member: &Member<'_>, words: &str) -> Vec<Value> {
    let words = format!("usage {words} -c {} --json", member.folder.file().display());
    let output = Ratelimit::new(sandbox).run(&words);
    if output.stderr.contains("there is no usage under the rule") {
        return Vec::new();
    }
    assert!(output.status < 2, "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// Returns admitted, cost and refused of a user under a rule. An hour that ends meanwhile makes two rows.
fn totals(sandbox: &Sandbox, member: &Member<'_>, user: &str, rule: &str) -> [u64; 3] {
    let rows = usage(sandbox, member, &format!("user={user} --rule {rule}"));
    ["admitted", "cost", "refused"].map(|key| rows.iter().map(|row| row[key].as_u64().unwrap()).sum())
}

fn hour() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3_600
}

#[test]
fn usage_of_two_servers_adds_up_exactly_also_if_the_engine_was_silent_meanwhile() {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    let mut members = [8_081, 8_082].map(|port| start(&sandbox, port));
    let mut allowed = [0; 2];
    let mut ask = |members: &[Member<'_>; 2], times: usize| {
        for _ in 0..times {
            for (member, allowed) in members.iter().zip(&mut allowed) {
                *allowed += u64::from(member.ask("pay", "17") == 200);
                assert_eq!(member.ask("other", "1*8"), 200);
            }
        }
    };
    ask(&members, 10);
    wait_until("the first requests are there", || totals(&sandbox, &members[0], "1*8", "own")[0] == 20);
    // Calls that the engine has got, and has not answered in time, are sent again.
    redis.process.signal(Signal::STOP);
    ask(&members, 10);
    for member in &mut members {
        member.await_line("usage waits in memory until the engine of the fleet can be written");
    }
    redis.process.signal(Signal::CONT);
    for member in &mut members {
        member.await_line("usage is written to the engine of the fleet again");
    }
    ask(&members, 5);
    let [one, other] = members;
    // The last seconds are written at the end.
    other.end();
    wait_until("all requests of the other server are there", || totals(&sandbox, &one, "1*8", "own")[0] == 50);
    let paid = totals(&sandbox, &one, "17", "daily");
    let [first, second] = allowed;
    assert!((3..=6).contains(&(first + second)), "{allowed:?}");
    assert_eq!(paid, [first + second, first + second, 50 - first - second]);
    assert_eq!(totals(&sandbox, &one, "17", "own"), [first + second, first + second, 0]);
    assert_eq!(totals(&sandbox, &one, "1", "own"), [0; 3]);
    let top = usage(&sandbox, &one, "--top 1");
    assert_eq!((&top[0]["rule"], &top[0]["client"]["user"]), (&"daily".into(), &"17".into()));
    for (words, expected) in [
        ("--rule dayly", "there is no usage under the rule dayly: rules with usage are daily, own"),
        ("usr=17", "no client has the attribute usr: attributes with usage are user"),
        ("usr=17 --rule own", "no client under the rule own has the attribute usr: attributes with usage are user"),
    ] {
        let error = Ratelimit::new(&sandbox).fails(&format!("usage {words} -c {}", one.folder.file().display()));
        assert!(error.ends_with(expected), "{error}");
    }
    assert_eq!(one.metric("ratelimit_check_usage_lost_total"), Some(0.0));
    one.end();
}

#[test]
fn rows_of_the_engine_are_bounded_end_and_count_each_batch_once() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let now = hour();
    let client = |user: usize| format!("all [[\"user\",\"{user}\"]]");
    // All clients of one part.
    let users: Vec<_> = (0..2_000).filter(|user| part(&client(*user)) == 3).take(60).collect();
    let bounds = Bounds { hours: 48, rows: 16 * 100, rows_of_hour: 16 * 20 };
    let (sums, left) = Redis::at_the_peer(&sandbox, async || {
        let address = Address::new(&[Redis::url()], Kind::Single, None, None).unwrap();
        let engine = Engine::connect(&address, Duration::from_secs(10)).await.unwrap();
        let store = Store::default();
        let row = |hour: u64, user: usize| Row { hour, client: client(user), numbers: [1, 2, 3, hour * 3_600] };
        let batch = |number: u64, rows: Vec<Row>| Batch { part: 3, number, rows };
        let first = batch(1, users.iter().take(15).map(|user| row(now, *user)).collect());
        for _ in 0..3 {
            assert_eq!(store.add(&engine, "one", &first, &bounds).await.unwrap(), 0);
        }
        assert_eq!(store.add(&engine, "other", &first, &bounds).await.unwrap(), 0);
        // An hour has room for 20 clients. Each row has four requests.
        let more = batch(2, users.iter().map(|user| row(now, *user)).collect());
        assert_eq!(store.add(&engine, "one", &more, &bounds).await.unwrap(), 40 * 4);
        // Hours that are over, or far in the future.
        let other = batch(3, vec![row(now - 49, users[0]), row(now + 100, users[0])]);
        assert_eq!(store.add(&engine, "one", &other, &bounds).await.unwrap(), 8);
        let reader = SharedReader::of(&engine);
        let wanted: Pair = format!("user={}", users[0]).parse().unwrap();
        let SharedFound { found, left_out } = reader.of_clients(&[wanted], None, 0, Step::Hour).await.unwrap();
        assert_eq!(left_out, 0);
        let sums: Vec<_> = found.iter().map(|found| (found.start.unwrap() / 3_600, found.totals.admitted)).collect();
        // A write that is late begins no call, and the next one writes everything.
        let rate = Rate { amount: 100, period: 24 * 3_600 * 1_000_000_000 };
        let rule = Rule::new("late", [Limit::new(rate, None, Algorithm::FixedWindow).unwrap()]).unwrap();
        let (limiter, recorder) = (Limiter::new([rule.by(["user"])], [1, 2]), Arc::new(Recorder::default()));
        limiter.check_and_record(&[("user", "17")], 1, 0, &mut recorder.at(now * 3_600));
        let mut writer = SharedWriter::new(Arc::clone(&recorder), SharedUsage { days: 30, rows: 1_000_000 });
        writer.collect();
        for (is_late, rows) in [(true, 0), (false, 1)] {
            let written = writer.write(&engine, || is_late).await;
            assert_eq!(matches!(written, Err(Error::Slow)), is_late, "{written:?}");
            let late = reader.of_clients(&[], Some("late"), 0, Step::Hour).await.unwrap();
            assert_eq!((late.found.len(), recorder.lost()), (rows, 0));
        }
        // The oldest hours go if there are too many rows.
        for back in 1..8 {
            let rows = users.iter().take(20).map(|user| row(now - back, *user)).collect();
            store.add(&engine, "one", &batch(3 + back, rows), &bounds).await.unwrap();
        }
        (sums, store.hours(&engine, 3).await.unwrap())
    });
    assert_eq!(sums, [(now, 3)]);
    let mut left = left;
    left.sort_unstable();
    assert_eq!(left, [now - 4, now - 3, now - 2, now - 1, now]);
    let key = format!("{{rl:0c}}:usage:{now}");
    let life: i64 = ask_engine(&sandbox, &["TTL", &key]);
    assert!((48 * 3_600..=49 * 3_600).contains(&life), "{life}");
    assert_eq!(ask_engine::<u64>(&sandbox, &["EXISTS", &format!("{{rl:0c}}:usage:{}", now - 7)]), 0);
}

#[test]
fn a_right_that_is_missing_is_told_and_loses_nothing() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let mut member = start(&sandbox, 8_081);
    for command in ["hlen", "hset"] {
        ask_engine::<()>(&sandbox, &["ACL", "SETUSER", "default", &format!("-{command}")]);
        assert_eq!(member.ask("other", command), 200);
        member.await_line("usage waits in memory until the engine of the fleet can be written");
        ask_engine::<()>(&sandbox, &["ACL", "SETUSER", "default", &format!("+{command}")]);
        member.await_line("usage is written to the engine of the fleet again");
        assert_eq!(totals(&sandbox, &member, command, "own")[0], 1);
    }
    assert_eq!(member.metric("ratelimit_check_usage_lost_total"), Some(0.0));
    member.end();
}

#[test]
fn a_part_of_the_engine_that_fails_does_not_keep_the_others_back() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let mut member = start(&sandbox, 8_081);
    let client = |user: u32| format!("own [[\"user\",\"{user}\"]]");
    // The first part is written first.
    let [bad, good] = [0, 9].map(|wanted| (0..2_000).find(|user| part(&client(*user)) == wanted).unwrap());
    ask_engine::<()>(&sandbox, &["SET", "{rl:00}:usage", "x"]);
    for user in [bad, good] {
        assert_eq!(member.ask("other", &user.to_string()), 200);
    }
    member.await_line("usage waits in memory until the engine of the fleet can be written");
    let found = [0, 1].map(|back| {
        let key = format!("{{rl:24}}:usage:{}", hour() - back);
        ask_engine::<Option<String>>(&sandbox, &["HGET", &key, &client(good)])
    });
    assert_eq!(found.iter().flatten().count(), 1, "{found:?}");
    ask_engine::<()>(&sandbox, &["DEL", "{rl:00}:usage"]);
    member.await_line("usage is written to the engine of the fleet again");
    assert_eq!([bad, good].map(|user| totals(&sandbox, &member, &user.to_string(), "own")[0]), [1, 1]);
    member.end();
}

#[test]
fn rows_of_the_engine_that_make_no_sense_are_left_out() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let member = start(&sandbox, 8_081);
    let client = "own [[\"user\",\"17\"]]";
    let key = |hour: u64| format!("{{rl:{:02x}}}:usage:{hour}", part(client) * 4);
    let good = "3 3 1 1795773600";
    at_the_engine(&sandbox, async |connection| {
        let now = hour();
        let all = key(now);
        for (field, value) in [
            (client, good),
            ("\u{1b}[2J [[\"user\",\"17\"]]", good),
            ("own [[\"\u{1b}[2J\",\"1\"],[\"user\",\"17\"]]", good),
            ("own [[\"user\",\"17\"]", good),
            ("own2 [[\"user\",\"17\"]]", "1 2 3"),
            ("own3 [[\"user\",\"17\"]]", "1 2 3 99999999999999999999"),
            ("own4 [[\"user\",\"17\"]]", "1 2 3 999999999999"),
            ("own5 [[\"user\",\"17\"]]", &"9".repeat(1 << 20)),
        ] {
            redis::cmd("HSET").arg(&all).arg(field).arg(value).exec_async(connection).await.unwrap();
        }
        let (hours, _) = all.rsplit_once(':').unwrap();
        redis::cmd("ZADD").arg(hours).arg(&[8, now, 1, now - 1]).exec_async(connection).await.unwrap();
        // A value of another kind in place of an hour.
        let other = key(now - 1);
        redis::cmd("SET").arg(other).arg("x").exec_async(connection).await.unwrap();
    });
    let words = format!("usage user=17 -c {} --json", member.folder.file().display());
    let output = Ratelimit::new(&sandbox).run(&words);
    let rows: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["admitted"]), (1, &3.into()), "{rows:?}");
    assert!(output.stderr.contains("warning: 7 rows of the engine at "), "{output:?}");
    member.end();
}
