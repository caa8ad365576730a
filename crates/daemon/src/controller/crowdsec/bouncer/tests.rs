use std::{fs, os::unix::fs::PermissionsExt as _, sync::mpsc::channel};

use super::*;
use crate::config;

/// Returns the table with this address of the API. Nothing listens there.
fn table(url: &str, lines: &str) -> CrowdSec {
    let key =
        std::env::temp_dir().join(format!("ratelimit-bouncer-{:?}-{}", thread::current().id(), std::process::id()));
    fs::write(&key, "secret").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!("interfaces = []\n[crowdsec]\nkey-file = \"{}\"\nurl = \"{url}\"\n{lines}\n", key.display());
    let config = config::parse(&text, |_| 0).unwrap();
    fs::remove_file(&key).unwrap();
    config.crowdsec.unwrap()
}

/// Returns a bouncer without an instance, which has asked for all decisions.
fn bouncer() -> Bouncer {
    let (events, _) = channel();
    let mut bouncer =
        Bouncer::of(Path::new("/nonexistent/ratelimit"), ssh::Origin::of_this_process(), events, Shown::default());
    bouncer.follow(Some(table("http://127.0.0.1:1", "")));
    assert_eq!(bouncer.asked, Some(Question::All));
    bouncer
}

fn answer(bouncer: &mut Bouncer, question: Question, new: &[(i64, &str, &str)]) {
    let each = new.iter().map(|(id, value, duration)| {
        format!(r#"{{"id":{id},"value":"{value}","duration":"{duration}","type":"ban","scope":"Ip"}}"#)
    });
    let text = format!(r#"{{"new":[{}],"deleted":[]}}"#, each.collect::<Vec<_>>().join(","));
    bouncer.asked = Some(question);
    bouncer.answered(bouncer.number, Ok(Answer::read(text.as_bytes(), question).unwrap()));
}

fn fail(bouncer: &mut Bouncer) {
    bouncer.asked = Some(Question::Changes);
    bouncer.answered(bouncer.number, Err(AskError::Key));
}

#[test]
fn decisions_stay_with_another_key_or_time_and_go_with_another_api() {
    let mut bouncer = bouncer();
    answer(&mut bouncer, Question::All, &[(1, "192.0.2.1", "1h")]);
    bouncer.follow(Some(table("http://127.0.0.1:1", "every = \"1s\"")));
    assert_eq!(bouncer.decisions.as_ref().map(Decisions::count), Some(1));
    // The answer to the question before is lost.
    assert_eq!(bouncer.asked, Some(Question::All));
    bouncer.follow(Some(table("http://127.0.0.1:2", "")));
    assert!(bouncer.decisions.is_none());
}

#[test]
fn decisions_that_end_one_after_the_other_change_the_list_together() {
    let mut bouncer = bouncer();
    answer(&mut bouncer, Question::All, &[(1, "192.0.2.1", "1h"), (2, "192.0.2.2", "1ns")]);
    let first = bouncer.version;
    // The first end changes the list at once: it is made without the second decision.
    assert_eq!(bouncer.decisions.as_ref().map(Decisions::count), Some(1));
    answer(&mut bouncer, Question::Changes, &[(3, "192.0.2.3", "1ns")]);
    bouncer.put();
    assert_eq!((bouncer.version, bouncer.decisions.as_ref().map(Decisions::count)), (first + 1, Some(2)));
    bouncer.ends_due = Instant::now();
    bouncer.put();
    assert_eq!((bouncer.version, bouncer.decisions.as_ref().map(Decisions::count)), (first + 2, Some(1)));
}

#[test]
fn after_three_failures_in_a_row_the_api_is_asked_once_a_minute_but_ends_are_looked_at_meanwhile() {
    let mut bouncer = bouncer();
    let is_late = |bouncer: &Bouncer| bouncer.question_due > Instant::now() + RARELY / 2;
    fail(&mut bouncer);
    fail(&mut bouncer);
    assert!(!is_late(&bouncer));
    fail(&mut bouncer);
    assert!(is_late(&bouncer));
    bouncer.step();
    assert!(bouncer.asked.is_none() && bouncer.due.unwrap() <= Instant::now() + ENDS);
    // The next answer ends that.
    bouncer.question_due = Instant::now();
    bouncer.step();
    answer(&mut bouncer, Question::All, &[]);
    fail(&mut bouncer);
    assert!(!is_late(&bouncer));
}

#[test]
fn without_an_instance_no_decision_is_in_force_and_that_is_a_problem() {
    let mut bouncer = bouncer();
    answer(&mut bouncer, Question::All, &[(1, "192.0.2.1", "1h")]);
    bouncer.show();
    let counts = bouncer.shown.lock().unwrap().clone().unwrap();
    assert_eq!((counts.in_force, counts.state.decisions), (0, Some(1)));
    assert!(counts.state.problem.unwrap().starts_with("decisions are not in force: "));
}

#[test]
fn without_space_for_a_decision_all_are_asked_for_sooner() {
    let mut bouncer = bouncer();
    answer(&mut bouncer, Question::All, &[]);
    assert!(bouncer.all_due > Instant::now() + NO_SPACE);
    bouncer.decisions = Some(Decisions::without_space());
    answer(&mut bouncer, Question::Changes, &[(-1, "2001:db8::/32", "1h")]);
    assert!(bouncer.all_due <= Instant::now() + NO_SPACE);
}
