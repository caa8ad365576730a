//! Rules of callers that all servers of a fleet share.

use std::{fs, thread, time::Duration};

use ratelimit_tests::{Folder, Ratelimit, Redis, Sandbox, scaled, wait_until};
use rustix::process::Signal;

use super::member::{Answer, Member, TOKEN, ask_engine, at_the_engine, fleet};

const RULES: &str = "{rl:m}:checks";

/// Writes rules as no server does.
fn write(sandbox: &Sandbox, version: &str, text: &str) {
    at_the_engine(sandbox, async |connection| {
        let values: [&str; 6] = ["version", version, "text", text, "digest", "other"];
        redis::cmd("HSET").arg(RULES).arg(&values).exec_async(connection).await.unwrap();
    });
}

fn row(version: u64, action: &str, server: &str, name: &str) -> (u64, String, String, String) {
    (version, action.to_owned(), server.to_owned(), name.to_owned())
}

#[test]
fn a_rule_is_in_force_on_all_servers_within_two_seconds_and_old_versions_are_refused_on_each() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let [one, mut other] = [8_081, 8_082].map(|port| Member::join(&sandbox, port));
    let created = one.put("team", None, "2/h");
    assert_eq!((created.status, created.version), (201, Some(1)), "{created:?}");
    assert!(other.await_version("team", Some(1)) < scaled(Duration::from_secs(2)));
    let statuses: Vec<_> = (0..3).map(|_| other.ask("team", "17")).collect();
    assert_eq!(statuses, [200, 200, 429]);
    let updated = other.put("team", Some(1), "3/h");
    assert_eq!((updated.status, updated.version), (200, Some(2)), "{updated:?}");
    // This server has perhaps not heard of version 2 yet.
    let old = one.put("team", Some(1), "4/h");
    assert_eq!((old.status, old.version), (412, Some(2)), "{old:?}");
    assert_eq!(one.version("team"), Some(2));
    let expected = [row(2, "update", "server8082", "team"), row(1, "create", "server8081", "team")];
    assert_eq!([one.log(), other.log()], [expected.to_vec(), expected.to_vec()]);
    // The part of the log of a name goes a year after its last change, since the name can be gone for good.
    let keys: Vec<String> = ask_engine(&sandbox, &["KEYS", "{rl:m}:checks:log:*"]);
    assert!(!keys.is_empty());
    for key in keys {
        let left: i64 = ask_engine(&sandbox, &["TTL", &key]);
        assert!((365 * 24 * 3_600 - 600..=365 * 24 * 3_600).contains(&left), "{key}: {left}");
    }
    let token = one.folder.add("token", TOKEN);
    let words = format!("rules log --server http://127.0.0.1:8081 --token-file {}", token.display());
    let log = Ratelimit::new(&sandbox).ok(&words);
    assert!(log.starts_with("version  at") && log.lines().nth(1).unwrap().contains("  server8082  admin  "), "{log}");
    let deleted = one.call("DELETE /v1/rules/team HTTP/1.1\r\nif-match: \"2\"", "");
    assert_eq!(deleted.status, 200, "{deleted:?}");
    assert!(other.await_version("team", None) < scaled(Duration::from_secs(2)));
    assert_eq!(other.metric("ratelimit_check_rules_version"), Some(3.0));
    assert_eq!(other.metric("ratelimit_check_rules_copy_failed"), Some(0.0));
    // Each server has a connection for its reports and one for all else. If the second one breaks, it is renewed.
    let list: String = ask_engine(&sandbox, &["CLIENT", "LIST", "TYPE", "normal"]);
    let number = |line: &str| line.split(' ').next().unwrap().strip_prefix("id=").unwrap().parse().unwrap();
    let mut clients: Vec<u64> = list.lines().map(number).collect();
    clients.sort_unstable();
    // The fifth one is that of the question.
    assert_eq!(clients.len(), 5, "{list}");
    let killed: u32 = ask_engine(&sandbox, &["CLIENT", "KILL", "ID", &clients[3].to_string()]);
    assert_eq!(killed, 1);
    other.await_line("the connection for rules and usage fails: ");
    assert_eq!(one.put("more", None, "2/h").status, 201);
    assert!(other.await_version("more", Some(4)) < scaled(Duration::from_secs(5)));
    // Reports went on, so the first connection is the same.
    let list: String = ask_engine(&sandbox, &["CLIENT", "LIST", "TYPE", "normal"]);
    assert!(list.lines().any(|line| number(line) == clients[2]), "{list}");
    assert_eq!(other.metric("ratelimit_check_fleet_up"), Some(1.0));
    one.end();
    other.end();
}

#[test]
fn of_two_writes_of_the_same_version_on_two_servers_one_wins_and_writes_of_other_rules_both_do() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let members = [8_081, 8_082].map(|port| Member::join(&sandbox, port));
    let mut version = members[0].put("team", None, "1/s").version.unwrap();
    let both = |put: &(dyn Fn(&Member<'_>, usize) -> u16 + Sync)| -> Vec<u16> {
        thread::scope(|scope| {
            let calls: Vec<_> =
                members.iter().enumerate().map(|(number, member)| scope.spawn(move || put(member, number))).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        })
    };
    for round in 0..10 {
        let mut statuses =
            both(&|member, number| member.put("team", Some(version), &format!("{}/s", 10 * round + number + 2)).status);
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412]);
        let statuses = both(&|member, number| member.put(&format!("team-{round}-{number}"), None, "1/s").status);
        assert_eq!(statuses, [201, 201]);
        let log = members[0].log();
        version = log.iter().find(|(.., name)| name == "team").unwrap().0;
    }
    members.into_iter().for_each(|member| drop(member.end()));
}

#[test]
fn without_the_engine_rules_stay_also_after_a_restart_and_writes_are_refused() {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    let [mut one, mut other] = [8_081, 8_082].map(|port| Member::join(&sandbox, port));
    one.put("team", None, "1/h");
    other.await_version("team", Some(1));
    drop(redis);
    for member in [&mut one, &mut other] {
        member.await_line("local limits apply");
    }
    let refused = other.put("team", Some(1), "2/h");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.body["error"], "nothing is changed: the engine of the fleet does not answer");
    assert_eq!(other.call("GET /v1/rules/log HTTP/1.1", "").status, 503);
    let folder = other.end();
    let mut other = Member::start(&sandbox, 8_082, folder, "", &fleet(8_082));
    assert_eq!(other.version("team"), Some(1));
    assert_eq!([other.ask("team", "17"), other.ask("team", "17"), one.ask("team", "18")], [200, 429, 200]);
    // An engine without memory gets the rules from the first server that sees it.
    let _redis = Redis::start(&sandbox, &[]);
    for member in [&mut one, &mut other] {
        member.await_line("answers");
    }
    let written = loop {
        // The engine can have the rules a moment later than it answers.
        let written = other.put("team", Some(1), "2/h");
        if written.status != 503 {
            break written;
        }
    };
    assert_eq!((written.status, written.version), (200, Some(2)), "{written:?}");
    one.await_version("team", Some(2));
    let log = one.log();
    assert_eq!((log[0].clone(), &*log[1].1, log.len()), (row(2, "update", "server8082", "team"), "restore", 2));
    ask_engine::<()>(&sandbox, &["FLUSHALL"]);
    assert_eq!([&one, &other].map(|member| member.version("team")), [Some(2); 2]);
    wait_until("the engine has the rules again", || {
        ask_engine::<Option<u64>>(&sandbox, &["HGET", RULES, "version"]) == Some(2)
    });
    one.end();
    other.end();
}

#[test]
fn a_server_that_joins_brings_its_rules_or_keeps_them_aside() {
    let sandbox = Sandbox::new();
    let alone = |port, rule: &str| {
        let member = Member::start(&sandbox, port, Folder::new(), "", "");
        assert_eq!(member.put(rule, None, "1/h").status, 201);
        member.end()
    };
    let folders = [alone(8_081, "first"), alone(8_082, "second")];
    let _redis = Redis::start(&sandbox, &[]);
    let [first, second] = folders;
    let mut one = Member::start(&sandbox, 8_081, first, "", &fleet(8_081));
    one.await_line("the engine had no rules of callers: it has those of this server, 1 in all");
    let mut other = Member::start(&sandbox, 8_082, second, "", &fleet(8_082));
    assert_eq!(other.version("second"), Some(1));
    let line = other.await_line("replace");
    let before = other.rules().with_file_name("rules.toml.before");
    assert!(line.contains("the rules of callers in the engine replace second of this server"), "{line}");
    assert!(line.ends_with(&format!("{} has the rules before", before.display())), "{line}");
    assert!(fs::read_to_string(before).unwrap().contains("name = \"second\""));
    other.await_version("second", None);
    assert_eq!([&one, &other].map(|member| member.version("first")), [Some(1); 2]);
    assert_eq!(one.log(), [row(1, "join", "server8081", "*")]);
    // A server that leaves keeps the rules, and can change them.
    let other = Member::start(&sandbox, 8_082, other.end(), "", "");
    assert_eq!(other.put("first", Some(1), "2/h").version, Some(2));
    assert_eq!(one.version("first"), Some(1));
    one.end();
    other.end();
}

#[test]
fn rules_in_the_engine_that_make_no_sense_change_nothing_and_are_told_once() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let mut one = Member::join(&sandbox, 8_081);
    assert_eq!(one.put("team", None, "1/h").status, 201);
    assert_eq!(one.put("team", Some(1), "2/h").status, 200);
    let good: String = ask_engine(&sandbox, &["HGET", RULES, "text"]);
    let last = good.replace("version = 2", "version = 9007199254740992");
    let large = "x".repeat(10 << 20);
    for (version, text, expected) in [
        ("9", "\u{1b}[2Jgarbage", "make no sense"),
        ("9", &large, "the rules are too long"),
        ("9", "version = 9\n", "make no sense"),
        ("9007199254740992", &last, "make no sense"),
        ("1e99", &good, "a value is not a number"),
    ] {
        write(&sandbox, version, text);
        let line = one.await_line(expected);
        assert!(line.chars().count() < 600 && !line.contains('\u{1b}'), "{line}");
        assert_eq!((one.version("team"), one.metric("ratelimit_check_rules_version")), (Some(2), Some(2.0)));
        if version.starts_with('9') && text != large {
            let refused = one.put("team", Some(2), "3/h");
            assert_eq!(refused.status, 500, "{refused:?}");
            assert_eq!(one.metric("ratelimit_check_rules_refused"), Some(1.0));
        }
        // Once it is gone, this server gives the engine its rules. Its line is the next one about rules.
        ask_engine::<()>(&sandbox, &["DEL", RULES]);
        let line = one.await_line("rules of callers");
        assert!(line.contains("can be read again") || line.contains("has no rules of callers any more"), "{line}");
        one.await_line("it has those of this server");
    }
    // A text that cannot be read does not hide the next one.
    write(&sandbox, "9", &large);
    one.await_line("the rules are too long");
    write(&sandbox, "9", "garbage");
    one.await_line("can be read again");
    one.await_line("make no sense");
    assert!(one.metric("ratelimit_check_rules_age_seconds").is_some_and(|age| age < 3.0));
    assert_eq!((one.ask("team", "17"), one.ask("team", "17"), one.ask("team", "17")), (200, 200, 429));
    one.end();
}

#[test]
fn of_more_rules_than_are_possible_the_newest_are_left_out_and_each_can_be_deleted() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let mut one = Member::join(&sandbox, 8_081);
    assert_eq!(one.put("team", None, "2/h").status, 201);
    let good: String = ask_engine(&sandbox, &["HGET", RULES, "text"]);
    let rule = |number: u32| format!("[[check]]\nname = \"r{number}\"\nversion = 9\nlimits = \"1000/s\"\n");
    let text = good.replacen("version = 1", "version = 9", 1) + &(0..1_500).map(rule).collect::<String>();
    write(&sandbox, "9", &text);
    let line = one.await_line("are left out: ");
    assert!(line.contains("at most 1000 rules of callers are possible: delete one"), "{line}");
    assert_eq!(one.metric("ratelimit_check_rules_refused"), Some(501.0));
    let more = one.put("more", None, "1/s");
    assert_eq!(more.status, 400, "{more:?}");
    let deleted = one.call("DELETE /v1/rules/r7 HTTP/1.1\r\nif-match: \"9\"", "");
    assert_eq!(deleted.status, 200, "{deleted:?}");
    assert_eq!([one.ask("team", "17"), one.ask("team", "17"), one.ask("team", "17")], [200, 200, 429]);
    one.end();
}

#[test]
fn changes_that_wait_for_an_engine_are_few() {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    let one = Member::join(&sandbox, 8_081);
    assert_eq!(one.put("team", None, "1/h").status, 201);
    redis.process.signal(Signal::STOP);
    let answers: Vec<_> = thread::scope(|scope| {
        let calls: Vec<_> = (0..60).map(|_| scope.spawn(|| one.put("team", Some(1), "2/h"))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    redis.process.signal(Signal::CONT);
    assert!(answers.iter().all(|answer| answer.status == 503), "{answers:?}");
    let full = |answer: &&Answer| answer.body["error"].as_str().unwrap().contains("wait already");
    assert!((1..=44).contains(&answers.iter().filter(full).count()), "{answers:?}");
    one.end();
}

#[test]
fn a_server_leaves_out_only_the_rules_that_do_not_fit_its_file() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let one = Member::join(&sandbox, 8_081);
    let tables = fleet(8_082) + "[[check]]\nname = \"team\"\nkey = \"user\"\nlimits = \"50/s\"\n";
    let mut other = Member::start(&sandbox, 8_082, Folder::new(), "", &tables);
    assert_eq!(one.put("team", None, "1/h").status, 201);
    let line = other.await_line("left out");
    assert!(line.contains("and are left out: team: team is a rule of callers too"), "{line}");
    assert_eq!(one.put("fits", None, "1/h").status, 201);
    other.await_version("fits", Some(2));
    assert_eq!([other.ask("fits", "17"), other.ask("fits", "17")], [200, 429]);
    assert_eq!(other.metric("ratelimit_check_rules_refused"), Some(1.0));
    // It can change other rules, and keeps those that it leaves out.
    assert_eq!(other.put("fits", Some(2), "2/h").version, Some(3));
    let mut other = Member::start(&sandbox, 8_082, other.end(), "", &tables);
    other.await_line("left out");
    assert_eq!((one.version("team"), other.version("fits")), (Some(1), Some(3)));
    assert_eq!(one.call("DELETE /v1/rules/team HTTP/1.1\r\nif-match: \"1\"", "").status, 200);
    wait_until("no rule is left out", || other.metric("ratelimit_check_rules_refused") == Some(0.0));
    one.end();
    other.end();
}

#[test]
fn servers_tell_that_rules_of_the_same_name_differ_and_that_they_do_not_any_more() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let rule = |limit: &str, keys: &str| format!("[[check]]\nname = \"api\"\nlimits = {limit}\n{keys}");
    let start = |port, rule: &str| Member::start(&sandbox, port, Folder::new(), "", &(fleet(port) + rule));
    let mut one = start(8_081, &rule("\"10/s\"", ""));
    // The same limit in other words, and with other memory.
    let mut other = start(8_082, &rule("[\"10/s\"]", "clients = 64\n"));
    let mut third = start(8_083, &rule("\"20/s\"", ""));
    let line = third.await_line("rules differ");
    assert!(line.contains(": api on server808") && line.ends_with("so use the same rules"), "{line}");
    for member in [&mut one, &mut other] {
        let line = member.await_line("rules differ");
        assert!(line.contains(": api on server8083: "), "{line}");
        assert_eq!(member.metric("ratelimit_check_differing_rules"), Some(1.0));
    }
    let text = fs::read_to_string(third.folder.file()).unwrap();
    third.folder.write(&text.replace("20/s", "10/s"));
    third.daemon.process.signal(Signal::HUP);
    third.await_line("rules in force");
    for member in [&mut one, &mut other, &mut third] {
        member.await_line("rules of the same name have the same limits on all servers");
        assert_eq!(member.metric("ratelimit_check_differing_rules"), Some(0.0));
    }
    [one, other, third].into_iter().for_each(|member| drop(member.end()));
}

#[test]
fn a_team_with_many_changes_makes_the_fleet_forget_no_change_of_another() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let team = format!("[[token]]\nname = \"team-a\"\nsha256 = \"{:064x}\"\nscope = \"rules:team-a-*\"\n", 1);
    let mut member = Member::start(&sandbox, 8_081, Folder::new(), "", &format!("{}{team}", fleet(8_081)));
    member.await_line("answers: limits are shared");
    assert_eq!(member.put("other", None, "1/s").version, Some(1));
    assert_eq!(member.put("team-a-1", None, "1/s").version, Some(2));
    let mut version = 2;
    while version <= 1_100 {
        let put = member.put("team-a-1", Some(version), &format!("{version}/s"));
        // An engine that is slow beside other tests may have made the change or not.
        version = match put.status {
            503 => member.version("team-a-1").unwrap(),
            _ => put.version.unwrap(),
        };
    }
    let answer = member.call("GET /v1/rules/log?limit=1000 HTTP/1.1", "");
    let changes = answer.body["changes"].as_array().unwrap();
    let of = |name: &str| changes.iter().filter(|change| change["name"] == name).count();
    assert_eq!((of("other"), of("team-a-1"), changes.len()), (1, 333, 334));
    assert_eq!((&changes[0]["version"], &changes[333]["version"]), (&1_101.into(), &1.into()));
    member.end();
}
