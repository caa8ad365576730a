//! A team that takes all it can get, beside another one.

use std::fmt::Write as _;

use ratelimit_tests::Sandbox;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{ADMIN, Changed, TEAM};

const CLIENTS: usize = 20_000;
const OF_CALL: usize = 100;

#[test]
fn a_team_with_almost_all_rules_lets_no_client_of_another_in_again_and_takes_no_rule_from_it() {
    let sandbox = Sandbox::new();
    let mut changed = Changed::start(&sandbox);
    changed.ok("set other --limits 1/d --key user --match operation=other", ADMIN);
    let question = |user: usize| json!({"attributes": {"operation": "other", "user": user.to_string()}});
    for first in (0..CLIENTS).step_by(OF_CALL) {
        let questions: Vec<Value> = (first..first + OF_CALL).map(question).collect();
        let batch = json!({"requests": questions}).to_string();
        assert_eq!(changed.server.call("POST /v1/check/batch HTTP/1.1", &batch).status, 200);
    }
    // By the file, because so many calls would take long.
    let good = std::fs::read_to_string(super::store(&changed.kept)).unwrap();
    let rule = |mut text: String, number| {
        let _ = write!(text, "[[check]]\nversion = 1\nname = \"team-a-{number}\"\nlimits = \"1/s\"\nkey = \"key\"\n");
        text
    };
    let _ = changed.kept.add("rules.toml", &(0..990).fold(good, rule));
    changed.server.daemon.process.signal(Signal::HUP);
    assert_eq!(changed.server.daemon.line(), "ratelimit: 1 rule of the file and 991 of callers in force");
    let again = (0..CLIENTS).step_by(20).filter(|user| changed.server.check(&question(*user)).status == 200).count();
    assert_eq!(again, 0, "of {} clients", CLIENTS / 20);
    let error = changed.fails("set team-a-more --limits 1/s", TEAM);
    assert_eq!(error, "ratelimit: at most 500 rules of this scope are possible: delete one first");
    changed.ok("set mine --limits 1/s", ADMIN);
    // The operator has rules of its own.
    let text = std::fs::read_to_string(changed.server.folder.file()).unwrap();
    let own = |number: usize| format!("[[check]]\nname = \"own-{number}\"\nlimits = \"1/s\"\nkey = \"key\"\n");
    changed.server.folder.write(&(text + &(0..99).map(own).collect::<String>()));
    changed.server.daemon.process.signal(Signal::HUP);
    assert_eq!(changed.server.daemon.line(), "ratelimit: 100 rules of the file and 992 of callers in force");
    changed.server.end();
}
