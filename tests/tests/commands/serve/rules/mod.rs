//! Rules that callers change while the server runs.

mod survival;
mod teams;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

use ratelimit_tests::{Folder, Ratelimit, Sandbox};
use serde_json::{Value, json};

use super::{Answer, RULES, Server, token};

pub(super) const ADMIN: &str = "YWRtaW4";
pub(crate) const TEAM: &str = "dGVhbQ";

/// A server whose rules change, and the folder of its rules.
pub(super) struct Changed<'a> {
    pub(super) server: Server,
    pub(super) ratelimit: Ratelimit<'a>,
    pub(super) kept: Folder,
}

/// The table `[serve]` beside the address, and the rules of the operator.
pub(crate) fn file(store: &Path) -> String {
    let admin = token("admin", ADMIN, "[\"rules:*\", \"rules:read\"]");
    let team = token("team-a", TEAM, "[\"rules:team-a-*\"]");
    format!("rules = \"{}\"\n{admin}{team}{RULES}", store.display())
}

pub(crate) fn store(kept: &Folder) -> PathBuf {
    kept.file().with_file_name("rules.toml")
}

impl<'a> Changed<'a> {
    pub(super) fn start(sandbox: &'a Sandbox) -> Self {
        Self::with(sandbox, Folder::new())
    }

    pub(super) fn with(sandbox: &'a Sandbox, kept: Folder) -> Self {
        let server = Server::start(sandbox, &file(&store(&kept)));
        Self { server, ratelimit: Ratelimit::new(sandbox), kept }
    }

    /// Returns the words of a command about rules.
    fn words(&self, words: &str, token: &str) -> String {
        let file = self.kept.add("token", token);
        format!("rules {words} --server unix:{} --token-file {}", self.server.socket.display(), file.display())
    }

    pub(super) fn ok(&self, words: &str, token: &str) -> String {
        self.ratelimit.ok(&self.words(words, token))
    }

    pub(super) fn fails(&self, words: &str, token: &str) -> String {
        self.ratelimit.fails(&self.words(words, token))
    }

    pub(super) fn json(&self, words: &str) -> Value {
        self.ratelimit.json(&self.words(words, ADMIN))
    }

    fn put(&self, name: &str, condition: &str, rule: &Value) -> Answer {
        let condition = if condition.is_empty() { String::new() } else { format!("\r\n{condition}") };
        let head = format!("PUT /v1/rules/{name} HTTP/1.1\r\nauthorization: Bearer {ADMIN}{condition}");
        self.server.call(&head, &rule.to_string())
    }

    pub(super) fn names(&self) -> Vec<String> {
        let rules = self.json("list");
        rules.as_array().unwrap().iter().map(|rule| rule["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_team_changes_its_own_rules_only_and_a_change_is_in_force_at_once() {
    let sandbox = Sandbox::new();
    let changed = Changed::start(&sandbox);
    let question = |user: &str| json!({"attributes": {"operation": "other", "user": user}});
    let allowed = |user| (0..10).filter(|_| changed.server.check(&question(user)).status == 200).count();
    assert_eq!(allowed("1"), 10);
    let set = "set team-a-1 --limits 2/h --key user --match operation=other";
    let output = changed.ok(set, TEAM);
    assert!(output.starts_with("team-a-1: version none → 1\n"), "{output}");
    assert_eq!(allowed("2"), 2);
    let output = changed.ok(&set.replace("2/h", "4/h"), TEAM);
    assert_eq!(output, "team-a-1: version 1 → 2\n  limits: [\"2/h\"] → [\"4/h\"]\n");
    assert_eq!(allowed("3"), 4);
    assert_eq!(changed.ok("set team-a-1 --limits 4/h", TEAM), "team-a-1: the rule has these keys already\n");
    changed.ok("set other --limits 1000/s", ADMIN);

    let error = changed.fails("set other --limits 1/s", TEAM);
    assert_eq!(
        error,
        "ratelimit: the token team-a may not read the rule other: the operator of the server can give it the scope rules:other, or rules:read to read only, in its [[token]]"
    );
    let answer = changed.server.call(&format!("DELETE /v1/rules/other HTTP/1.1\r\nauthorization: Bearer {TEAM}"), "");
    assert_eq!(
        (answer.status, &answer.body["error"]),
        (
            403,
            &json!(
                "the token team-a may not change the rule other: the operator of the server can give it the scope rules:other, in its [[token]]"
            )
        )
    );
    let list = changed.ok("list", TEAM);
    let names: Vec<_> = list.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["team-a-1"]);
    assert_eq!(changed.names(), ["create-url", "other", "team-a-1"]);
    let error = changed.fails("log", TEAM);
    assert!(error.contains("the token team-a may not read the log of changes: "), "{error}");
    let error = changed.fails("list", "wrong");
    assert!(error.contains("the token is unknown"), "{error}");

    let rule = changed.json("get team-a-1");
    let keys = json!({"key": ["user"], "limits": ["4/h"], "match": {"operation": ["other"]}});
    assert_eq!(rule, json!({"name": "team-a-1", "version": 2, "rule": keys}));
    assert!(changed.ok("get create-url", ADMIN).starts_with("# create-url: a rule of the file of the server\n"));
    changed.ok("set other --burst 10", ADMIN);
    let error = changed.fails("set other --limits 3/m,100/h", ADMIN);
    assert!(
        error.ends_with("different bursts: remove this key, or write two rules (`--unset burst` removes it)"),
        "{error}"
    );
    let set = "set other --limits 1k/s,9k/m --unset burst";
    let lines = "  burst: 10 → none\n  limits: [\"1000/s\"] → [\"1k/s\", \"9k/m\"]\n";
    let output = changed.ok(&format!("{set} --dry-run"), ADMIN);
    assert_eq!(output, format!("other: the rule can be set; nothing is changed\n{lines}"));
    assert!(changed.ok(set, ADMIN).ends_with(lines));

    // The output of `get` is a file for `set`.
    let text = changed.ok("get team-a-1", TEAM);
    let file = changed.kept.add("rule.toml", &text.replace("\"team-a-1\"", "\"team-a-2\""));
    let output = changed.json(&format!("set team-a-2 --file {}", file.display()));
    assert_eq!((&output["action"], &output["new"]), (&json!("create"), &keys));
    assert_eq!(changed.ok("delete team-a-1", TEAM), "team-a-1: version 2 is deleted\n");
    assert_eq!(changed.json("del team-a-2"), json!({"name": "team-a-2", "deleted": 6}));
    let missing = changed.ratelimit.run(&changed.words("del team-a-1 --json", TEAM));
    assert_eq!(missing.status, 1, "{missing:?}");
    assert_eq!(allowed("4"), 10);
    changed.server.end();
}

#[test]
fn a_bad_rule_gets_one_line_with_its_key_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let changed = Changed::start(&sandbox);
    for (words, expected) in [
        (
            "set a --limits often",
            "limits: [\"often\"]: expected requests per s, m, h or d, such as 100/h, 3/m or 1.5k/s",
        ),
        ("set a --limits 3/m --key usr", "key: [\"usr\"]: unknown attribute: did you mean user?"),
        ("set a --limits 3/m --match usr=1", "match: usr: unknown attribute: did you mean user?"),
        ("set a --limits 3/m,5/h --burst 3", "burst: 3: several limits have different bursts"),
        ("set A --limits 3/m", "name: \"A\": expected 1 to 64 small letters"),
        ("set create-url --limits 3/m", "create-url is a rule of the file of this server: change it there"),
        ("set a --limits 3/m --clients 9000000", "clients: all rules of this scope with this key may take 128 MiB"),
        ("set a --limits often --dry-run", "limits: "),
        ("set a --limits 3/m --version 7", "a has no version, because it does not exist"),
        ("get a", "there is no rule a"),
        ("get log", "'log' for '<NAME>': this name is reserved, so no rule has it"),
        ("set log --limits 3/m", "this name is reserved"),
        ("del log", "this name is reserved"),
        ("del create-url", "create-url is a rule of the file of the server: delete it there"),
        ("set a", "required arguments were not provided: <--file"),
        ("set a --shadow=off", "there is no rule a: give --limits to create it"),
    ] {
        let error = changed.fails(words, ADMIN);
        assert!(error.contains(expected), "{words}: {error}");
    }
    for (condition, rule, status, expected) in [
        ("", json!({"limits": "1/s"}), 428, "which version does this change?"),
        ("if-match: 1", json!({"limits": "1/s"}), 400, "If-Match: expected one version in quotes"),
        ("if-match: \"1\"\r\nif-none-match: *", json!({"limits": "1/s"}), 400, "exclude each other"),
        ("if-none-match: *", json!(["limits"]), 400, "the rule is no JSON object of its keys: "),
        ("if-none-match: *", json!({"limits": null}), 400, "line 1, column 14: limits: expected text, a number, "),
        ("if-none-match: *", json!({"limits": "1/s", "kee": 1}), 400, "kee: unknown key: did you mean key?"),
        ("if-none-match: *", json!({"limits": "x".repeat(16 << 10)}), 413, "a rule has at most 16384 bytes"),
    ] {
        let answer = changed.put("a", condition, &rule);
        let error = answer.body["error"].as_str().unwrap();
        assert!(answer.status == status && error.contains(expected) && !error.contains('\n'), "{answer:?}");
    }
    assert_eq!(
        changed.ok("set a --limits 3/m --dry-run", ADMIN),
        "a: the rule can be set; nothing is changed\n  limits: none → [\"3/m\"]\n"
    );
    assert_eq!(changed.names(), ["create-url"]);
    assert_eq!(changed.json("log"), json!([]));
    assert!(!store(&changed.kept).exists());
    changed.server.end();
}

#[test]
fn of_writers_with_the_same_version_exactly_one_wins() {
    let sandbox = Sandbox::new();
    let changed = Changed::start(&sandbox);
    let answer = changed.put("a", "if-none-match: *", &json!({"limits": "1/s"}));
    assert_eq!((answer.status, answer.header("etag")), (201, Some("\"1\"")));
    for version in 1..6 {
        let condition = format!("if-match: \"{version}\"");
        let answers: Vec<_> = thread::scope(|scope| {
            let writer = |number: u64| {
                let (changed, condition) = (&changed, &condition);
                scope.spawn(move || changed.put("a", condition, &json!({"limits": format!("{number}/m")})))
            };
            let writers: Vec<_> = (1..7).map(writer).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!(won.len(), 1, "{answers:?}");
        assert_eq!(won[0].body["version"], version + 1);
        for answer in lost {
            assert_eq!((answer.status, &answer.body["version"]), (412, &json!(version + 1)), "{answer:?}");
        }
    }
    let error = changed.fails("set a --limits 9/s --version 5", ADMIN);
    assert_eq!(error, "ratelimit: a has version 6 now: read it again, then change it");
    changed.server.end();
}

#[test]
fn the_log_has_a_line_for_each_change_with_the_rule_before_and_after() {
    let sandbox = Sandbox::new();
    let changed = Changed::start(&sandbox);
    changed.ok("set team-a-1 --limits 1/s", TEAM);
    changed.ok("set team-a-1 --limits 2/s", ADMIN);
    changed.ok("del team-a-1", TEAM);
    let log = changed.json("log");
    let [deleted, updated, created] = &log.as_array().unwrap()[..] else { panic!("{log:#}") };
    for (entry, token, action, old_version, version, old, new) in [
        (created, "team-a", "create", json!(null), 1, json!(null), json!({"limits": ["1/s"]})),
        (updated, "admin", "update", json!(1), 2, json!({"limits": ["1/s"]}), json!({"limits": ["2/s"]})),
        (deleted, "team-a", "delete", json!(2), 3, json!({"limits": ["2/s"]}), json!(null)),
    ] {
        let mut entry = entry.clone();
        let at = entry.as_object_mut().unwrap().remove("at").unwrap();
        assert!(at.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{at}");
        let expected = json!({
            "token": token, "address": null, "action": action, "name": "team-a-1", "old_version": old_version,
            "version": version, "old": old, "new": new,
        });
        assert_eq!(entry, expected);
    }
    let lines = fs::read_to_string(changed.kept.file().with_file_name("rules.toml.log")).unwrap();
    assert_eq!(lines.lines().count(), 3);
    assert_eq!(changed.json("log -n 1").as_array().unwrap().len(), 1);
    assert!(changed.ok("log", ADMIN).lines().nth(2).unwrap().ends_with("limits: [\"1/s\"] → [\"2/s\"]"));
    changed.server.end();
}

#[test]
fn a_server_without_a_place_for_rules_only_shows_them() {
    let sandbox = Sandbox::new();
    let text = token("admin", ADMIN, "\"rules:*\"") + RULES;
    let changed =
        Changed { server: Server::start(&sandbox, &text), ratelimit: Ratelimit::new(&sandbox), kept: Folder::new() };
    assert_eq!(changed.names(), ["create-url"]);
    let answer = changed.put("a", "if-none-match: *", &json!({"limits": "1/s"}));
    assert_eq!(answer.status, 501);
    let error = changed.fails("set a --limits 1/s", ADMIN);
    assert!(error.ends_with("add rules = \"/PATH\" to the table [serve] of its file"), "{error}");
    changed.server.end();
}
