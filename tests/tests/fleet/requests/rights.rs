//! Servers of requests as the user of Redis that the document names, and with a cluster.

use ratelimit_tests::{Folder, Hosts, Ratelimit, Redis, Sandbox, wait_until};
use serde_json::Value;

use super::member::{Member, at_the_engine, fleet_of};
use crate::stage::list;

/// Uses everything that servers keep in the engine.
fn use_all<'a>(sandbox: &'a Sandbox, tables: &str) -> [Member<'a>; 2] {
    let mut members = [8_081, 8_082]
        .map(|port| Member::start(sandbox, port, Folder::new(), "usage = \"fleet\"\n", &(fleet_of(port) + tables)));
    for member in &mut members {
        member.await_line("answers: limits are shared");
    }
    let [one, other] = &members;
    let created = one.put("team", None, "2/h");
    assert_eq!((created.status, created.version), (201, Some(1)), "{created:?}");
    other.await_version("team", Some(1));
    assert_eq!(other.log().len(), 1);
    for user in 0..40 {
        assert_eq!(one.ask("other", &user.to_string()), 200);
        assert_eq!(other.ask("other", &user.to_string()), 200);
    }
    wait_until("usage of all clients is there", || {
        let words = format!("usage --top 100 -c {} --json", one.folder.file().display());
        let rows: Vec<Value> = serde_json::from_str(&Ratelimit::new(sandbox).ok(&words)).unwrap();
        let rows: Vec<_> = rows.iter().filter(|row| row["rule"] == "own").collect();
        rows.len() == 40 && rows.iter().all(|row| row["admitted"] == 2)
    });
    members
}

#[test]
fn a_user_with_the_rights_in_the_document_can_share_rules_and_usage() {
    let document = include_str!("../../../../docs/fleet.md");
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    at_the_engine(&sandbox, async |connection| {
        for line in document.lines().filter(|line| line.starts_with("ACL SETUSER ")) {
            let line = line.replace("PASSWORD", "secret");
            let words: Vec<_> = line.split(' ').collect();
            redis::cmd(words[0]).arg(&words[1..]).exec_async(connection).await.unwrap();
        }
    });
    let folder = Folder::new();
    let password = folder.add("password", "secret");
    let login = format!(
        "engine = \"redis://127.0.0.1:{}\"\nuser = \"ratelimit\"\npassword-file = \"{}\"\n",
        Redis::PORT,
        password.display()
    );
    let members = use_all(&sandbox, &login);
    // Servers compare their rules every five seconds.
    assert!(members.iter().all(|member| member.metric("ratelimit_check_differing_rules") == Some(0.0)));
    members.into_iter().for_each(|member| drop(member.end()));
    let refused: Vec<redis::Value> =
        at_the_engine(&sandbox, async |connection| redis::cmd("ACL").arg("LOG").query_async(connection).await.unwrap());
    assert_eq!(refused, []);
}

#[test]
fn a_cluster_keeps_rules_and_usage() {
    let hosts = Hosts::new(1);
    let cluster = hosts.cluster();
    let tables = format!("engine = [{}]\nservers = \"cluster\"\n", list(&cluster.urls()));
    let members = use_all(&hosts.hosts[0], &tables);
    members.into_iter().for_each(|member| drop(member.end()));
}
