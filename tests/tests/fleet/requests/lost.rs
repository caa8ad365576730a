//! Engines that lose rules of callers, or go back to older ones.

use std::fs;

use ratelimit_tests::{Folder, Redis, Sandbox, wait_until};
use redis::pipe;

use super::member::{Member, ask_engine, at_the_engine, fleet};

const RULES: &str = "{rl:m}:checks";

/// Goes back to rules as an engine without its last writes does.
fn go_back(sandbox: &Sandbox, version: u64, text: &str) {
    at_the_engine(sandbox, async |connection| {
        let version = version.to_string();
        let values = ["version", &*version, "text", text, "digest", "other"];
        pipe().atomic().del(RULES).cmd("HSET").arg(RULES).arg(&values).exec_async(connection).await.unwrap();
    });
}

fn version(sandbox: &Sandbox) -> u64 {
    ask_engine::<Option<u64>>(sandbox, &["HGET", RULES, "version"]).unwrap_or_default()
}

fn text(sandbox: &Sandbox) -> String {
    ask_engine(sandbox, &["HGET", RULES, "text"])
}

#[test]
fn an_engine_that_goes_back_gets_the_rules_again_under_one_higher_version() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let [mut one, other] = [8_081, 8_082].map(|port| Member::join(&sandbox, port));
    one.put("team", None, "1/h");
    let first = text(&sandbox);
    one.put("team", Some(1), "2/h");
    other.await_version("team", Some(2));
    go_back(&sandbox, 1, &first);
    wait_until("the engine has the rules again", || version(&sandbox) == 3);
    // Callers know version 2, and nothing of this.
    let written = other.put("team", Some(2), "3/h");
    assert_eq!((written.status, written.version), (200, Some(4)), "{written:?}");
    one.await_version("team", Some(4));
    let actions: Vec<_> = one.log().into_iter().map(|(version, action, ..)| (version, action)).collect();
    let expected = [(4, "update"), (3, "restore"), (2, "update"), (1, "create")];
    assert_eq!(actions, expected.map(|(version, action)| (version, action.to_owned())));
    other.end();
    // What other servers have changed meanwhile is kept.
    go_back(&sandbox, 2, &first.replace("version = 1", "version = 2").replace("1/h", "9/h"));
    let line = one.await_line("it has them again, as version 5, in place of version 2");
    let before = one.rules().with_file_name("rules.toml.before");
    assert!(line.ends_with(&format!("{} has the rules before", before.display())), "{line}");
    assert!(fs::read_to_string(before).unwrap().contains("9/h"));
    one.end();
}

#[test]
fn rules_with_the_same_version_and_another_text_keep_those_of_the_server_aside() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let mut one = Member::join(&sandbox, 8_081);
    one.put("team", None, "1/h");
    one.put("team", Some(1), "2/h");
    // Another server has not heard of version 2, and writes one too.
    go_back(&sandbox, 2, &text(&sandbox).replace("2/h", "3/h"));
    let line = one.await_line("replace");
    let before = one.rules().with_file_name("rules.toml.before");
    assert!(line.contains("the rules of callers in the engine replace team of this server"), "{line}");
    assert!(fs::read_to_string(before).unwrap().contains("2/h"));
    // The line comes a moment before.
    wait_until("the rules of the engine are in force", || {
        one.call("GET /v1/rules/team HTTP/1.1", "").body.to_string().contains("3/h")
    });
    one.end();
}

#[test]
fn a_server_that_was_never_in_the_fleet_does_not_replace_its_rules() {
    let sandbox = Sandbox::new();
    let stranger = Member::start(&sandbox, 8_082, Folder::new(), "", "");
    assert_eq!(stranger.put("stranger", None, "1/h").status, 201);
    let stranger = stranger.end();
    let _redis = Redis::start(&sandbox, &[]);
    let mut one = Member::join(&sandbox, 8_081);
    one.put("team", None, "1/h");
    one.put("team", Some(1), "2/h");
    let good = text(&sandbox);
    // It was first after all.
    go_back(&sandbox, 1, "version = 1\nfleet = \"other\"\n");
    one.await_line("it has them again, as version 3, in place of version 1");
    assert_eq!((one.version("team"), text(&sandbox)), (Some(2), good.replacen("version = 2", "version = 3", 1)));
    // A new server leaves an empty engine to members for a while.
    one.end();
    ask_engine::<()>(&sandbox, &["FLUSHALL"]);
    let mut stranger = Member::start(&sandbox, 8_082, stranger, "", &fleet(8_082));
    stranger.await_line("answers: limits are shared");
    let refused =
        stranger.call("PUT /v1/rules/new HTTP/1.1\r\nif-none-match: *", r#"{"key": "user", "limits": "1/s"}"#);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.body["error"].as_str().unwrap().ends_with("try again in 3 s"), "{refused:?}");
    assert_eq!(version(&sandbox), 0);
    stranger.await_line("it has those of this server, 1 in all");
    assert_eq!(stranger.version("stranger"), Some(1));
    stranger.end();
}

#[test]
fn no_version_of_an_engine_ends_changes() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    let mut one = Member::join(&sandbox, 8_081);
    let other = Member::join(&sandbox, 8_082);
    one.put("team", None, "1/h");
    let good = text(&sandbox);
    let high: u64 = (1 << 51) - 1;
    go_back(&sandbox, high, &good.replacen("version = 1", &format!("version = {high}"), 1));
    wait_until("both servers have that version", || {
        [&one, &other].iter().all(|member| member.metric("ratelimit_check_rules_version") == Some(high as f64))
    });
    let written = one.put("team", Some(1), "2/h");
    assert_eq!((written.status, written.version), (200, Some(high + 1)), "{written:?}");
    other.await_version("team", Some(high + 1));
    let last = (1 << 52) - 1;
    go_back(&sandbox, last, &good.replacen("version = 1", &format!("version = {last}"), 1));
    one.await_line("no version that is possible");
    ask_engine::<()>(&sandbox, &["DEL", RULES]);
    wait_until("the engine has new versions", || version(&sandbox) == 2);
    for member in [&one, &other] {
        member.await_version("team", Some(2));
    }
    let written = other.put("team", Some(2), "3/h");
    assert_eq!((written.status, written.version), (200, Some(3)), "{written:?}");
    one.await_version("team", Some(3));
    one.end();
    other.end();
}
