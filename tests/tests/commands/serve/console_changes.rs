//! Changes of rules for packets in the pages, with a daemon.

use std::{path::Path, time::Instant};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, PATIENCE, PEER_IPV4, Ratelimit, Sandbox};

use super::{
    Answer,
    console::{Pages, Visitor},
    rules::TEAM,
    token,
};

const EDGE: &str = "ZWRnZQ";
const NETWORK: &str = "bmV0";

/// A daemon that takes changes, and pages with visitors who may make them and who may not.
struct Stage<'a> {
    ratelimit: Ratelimit<'a>,
    folder: Folder,
    daemon: Daemon,
    pages: Pages,
    edge: Visitor,
}

fn file(view: &Path, changes: bool) -> String {
    format!(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"100/s\"\n[view]\nsocket = \"{}\"\nchanges = {changes}\n",
        view.display()
    )
}

impl<'a> Stage<'a> {
    fn start(sandbox: &'a Sandbox, session: Option<&str>) -> Self {
        let (ratelimit, folder) = (Ratelimit::new(sandbox), Folder::new());
        let view = folder.file().with_file_name("view");
        folder.write(&file(&view, true));
        let mut command = ratelimit.command(&format!("run --config {}", folder.file().display()));
        command.env_remove("SSH_CONNECTION");
        if let Some(session) = session {
            command.env("SSH_CONNECTION", session);
        }
        let mut daemon = Daemon::by(sandbox, command);
        let line = daemon.line();
        assert!(line.contains(": in force, "), "{line}");
        let tokens = [token("edge", EDGE, "\"packets:write\""), token("network", NETWORK, "\"packets:read\"")].concat();
        let bob = "[[user]]\nname = \"bob@example.org\"\nscope = [\"packets:write\"]\n";
        let pages = Pages::with(sandbox, &format!("packets = \"{}\"\n{tokens}{bob}", view.display()));
        let edge = pages.sign_in_for(EDGE, "/console/packets/rule");
        Self { ratelimit, folder, daemon, pages, edge }
    }

    fn end(self) {
        self.daemon.end();
        self.pages.server.end();
        self.ratelimit.ok("detach --all");
    }

    fn preview(&self, fields: &str) -> String {
        let preview = || self.edge.post("/console/packets/preview", fields);
        let mut answer = preview();
        // On a slow machine, the daemon may need more time than a page waits for it.
        let begin = Instant::now();
        while text(&answer).contains("it does not answer in time") && begin.elapsed() < PATIENCE {
            answer = preview();
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        text(&answer).to_owned()
    }

    /// Confirms a preview. Returns the page of the rule, and the number of the change.
    fn apply(&self, fields: &str) -> (String, String) {
        let before = hidden(&self.preview(fields), "before");
        let answer = self.edge.post("/console/packets/apply", &format!("{fields}&before={}", encoded(&before)));
        self.done(&answer)
    }

    fn done(&self, answer: &Answer) -> (String, String) {
        assert_eq!(answer.status, 303, "{answer:?}");
        let path = answer.header("location").unwrap();
        let number = path.split_once("&done=").unwrap().1.to_owned();
        (self.edge.page(path), number)
    }

    fn limits(&self) -> String {
        self.ratelimit.ok("limit list")
    }

    fn passed(&self) -> u64 {
        self.ratelimit.json("status")["passed"]["packets"].as_u64().unwrap()
    }
}

fn text(answer: &Answer) -> &str {
    answer.body.as_str().unwrap()
}

/// Returns the value of a hidden field, or nothing.
fn hidden(page: &str, name: &str) -> String {
    let found = page.split_once(&format!("name=\"{name}\" value=\""));
    let value = found.map_or("", |(_, rest)| rest.split_once('"').unwrap().0);
    value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

const SOURCE: &str = "sources=10.9.0.0%2F24&service=";

#[test]
fn a_limit_is_previewed_confirmed_held_by_the_kernel_and_undone() {
    let sandbox = Sandbox::new();
    let stage = Stage::start(&sandbox, None);
    let ten = format!("{SOURCE}&kind=limit&packets=10%2Fm&comment=%3Cb%3Edesk");
    // The daemon looks for the first time before the flood.
    assert!(stage.preview(&ten).contains("The daemon has counted no source of this rule in the last "));
    Flood::of(Frame::ack(PEER_IPV4, 80)).send(&sandbox, 5_000);
    let page = stage.preview(&ten);
    assert!(page.contains("The new rule would have hit 1 of 1 sources in the last "), "{page}");
    assert!(page.contains("<code>10.9.0.2</code>") && page.contains("no rule"), "{page}");
    assert!(page.contains("Bursts within a minute are not seen"), "{page}");
    assert!(!stage.limits().contains("10.9.0.0/24"), "a preview has changed something");
    // A limit that the source has not reached hits nobody.
    let page = stage.preview(&format!("{SOURCE}&kind=limit&packets=100000%2Fs"));
    assert!(page.contains("The new rule would have hit 0 of 1 sources in the last "), "{page}");

    let (page, number) = stage.apply(&ten);
    assert!(page.contains("The change is in force. It can be undone below."), "{page}");
    assert!(page.contains("by token:edge") && page.contains("limit set 10.9.0.0/24 --packets=10/m"), "{page}");
    assert!(page.contains("&lt;b&gt;desk") && !page.contains("<b>desk"), "{page}");
    assert!(stage.limits().contains("10.9.0.0/24"), "{}", stage.limits());
    let before = stage.passed();
    Flood::of(Frame::ack(PEER_IPV4, 80)).send(&sandbox, 1_000);
    let passed = stage.passed() - before;
    // A minute is far longer than the flood.
    assert!(passed <= 12, "the limit is 10 a minute, and {passed} packets have passed");

    // Another change came first.
    let words = hidden(&stage.preview(&ten), "before");
    stage.ratelimit.ok("limit set 10.9.0.0/24 --packets 20/m");
    let late = format!("{SOURCE}&kind=limit&packets=30%2Fm&before={}", encoded(&words));
    let answer = stage.edge.post("/console/packets/apply", &late);
    assert_eq!(answer.status, 409);
    assert!(
        text(&answer).contains("It was `10/m per source") && text(&answer).contains("is `20/m per source"),
        "{answer:?}"
    );
    let answer = stage.edge.post("/console/packets/undo", &format!("{SOURCE}&number={number}"));
    assert!(answer.status == 409 && text(&answer).contains("the rule has changed since"), "{answer:?}");

    // A change of one field keeps the rest, and its way back restores it.
    stage.ratelimit.ok("limit set 10.9.0.0/24 --packets 20/m --burst 7 --parent /16=1000/s --comment mine");
    let (page, number) = stage.apply(&format!("{SOURCE}&kind=limit&packets=30%2Fm&burst=7&comment=mine"));
    assert!(page.contains("30/m per source, burst 7; parents /16=1000/s, comment &quot;mine&quot;"), "{page}");
    let (page, again) = stage.done(&stage.edge.post("/console/packets/undo", &format!("{SOURCE}&number={number}")));
    assert!(page.contains("20/m per source, burst 7; parents /16=1000/s, comment &quot;mine&quot;"), "{page}");
    assert_eq!(stage.edge.post("/console/packets/undo", &format!("{SOURCE}&number={number}")).status, 409);
    // The way back has one itself.
    let (page, _) = stage.done(&stage.edge.post("/console/packets/undo", &format!("{SOURCE}&number={again}")));
    assert!(page.contains("30/m per source"), "{page}");

    // A deletion, and its way back.
    let (page, number) = stage.apply(&format!("{SOURCE}&delete=true"));
    assert!(page.contains("There is no such rule.") && !stage.limits().contains("10.9.0.0/24"), "{page}");
    stage.done(&stage.edge.post("/console/packets/undo", &format!("{SOURCE}&number={number}")));
    assert!(stage.limits().contains("10.9.0.0/24"), "{}", stage.limits());

    // The limit of all others, which the file has set.
    let default = "sources=default&service=";
    let (page, number) = stage.apply(&format!("{default}&kind=limit&packets=200%2Fs"));
    assert!(page.contains("200/s per source") && page.contains("set by a command"), "{page}");
    // A number is good for its own rule.
    let answer = stage.edge.post("/console/packets/undo", &format!("{SOURCE}&number={number}"));
    assert!(answer.status == 409 && text(&answer).contains("remembers no such change"), "{answer:?}");
    let (page, _) = stage.done(&stage.edge.post("/console/packets/undo", &format!("{default}&number={number}")));
    assert!(page.contains("100/s per source, burst 100, set by the file of the daemon"), "{page}");
    // A service.
    let (page, _) = stage.apply("sources=default&service=udp%2F53&kind=limit&packets=50%2Fs&over-limit=shadow");
    assert!(page.contains("50/s per source, burst 50, shadow"), "{page}");

    let changes = stage.edge.page("/console/packets/changes");
    assert!(changes.contains("console token:edge") && changes.contains("undo: limit set default"), "{changes}");
    stage.end();
}

#[test]
fn a_source_is_denied_and_allowed_again_with_the_name_of_the_user() {
    let sandbox = Sandbox::new();
    let stage = Stage::start(&sandbox, None);
    stage.preview("sources=10.9.0.2&kind=deny");
    Flood::of(Frame::ack(PEER_IPV4, 80)).send(&sandbox, 2_000);
    let page = stage.preview("sources=10.9.0.2&kind=deny");
    assert!(page.contains("The new rule would have hit 1 of 1 sources"), "{page}");
    let page = stage.preview("sources=10.9.0.2&kind=allow");
    assert!(
        page.contains("The new rule refuses nothing. In the last ") && page.contains("packets of its 1 sources"),
        "{page}"
    );
    let bob = stage.pages.visitor_for("\r\nx-remote-user: bob@example.org", "/console/packets/rule");
    let answer = bob.post("/console/packets/apply", "sources=10.9.0.2&kind=deny&comment=noisy");
    let (_, number) = stage.done(&answer);
    let before = stage.passed();
    Flood::of(Frame::ack(PEER_IPV4, 80)).send(&sandbox, 500);
    assert_eq!(stage.passed(), before, "a denied source has passed");
    let list = stage.ratelimit.ok("deny list");
    assert!(list.contains("10.9.0.2") && list.contains("noisy"), "{list}");
    let rules = stage.edge.page("/console/packets/rules?q=noisy");
    assert!(rules.contains("href=\"/console/packets/rule?sources=10.9.0.2&amp;service=\""), "{rules}");
    assert!(bob.page("/console/packets/changes").contains("console user:bob@example.org"));
    stage.done(&bob.post("/console/packets/undo", &format!("sources=10.9.0.2&service=&number={number}")));
    Flood::of(Frame::ack(PEER_IPV4, 80)).send(&sandbox, 50);
    assert!(stage.passed() > before, "the source is still denied");
    // A rule allow is replaced by no other, as with commands.
    stage.apply("sources=10.9.0.2&kind=allow");
    let before = hidden(&stage.preview("sources=10.9.0.2&kind=deny"), "before");
    let deny = format!("sources=10.9.0.2&kind=deny&before={}", encoded(&before));
    let answer = stage.edge.post("/console/packets/apply", &deny);
    assert!(answer.status == 409 && text(&answer).contains("rule allow"), "{answer:?}");
    stage.end();
}

#[test]
fn a_ban_stays_whatever_the_console_changes() {
    let sandbox = Sandbox::new();
    let stage = Stage::start(&sandbox, None);
    stage.ratelimit.ok("limit set 10.9.0.2 --packets 1/m --burst 1 --ban 10m --ban-after 1");
    Flood::of(Frame::ack(PEER_IPV4, 80)).send(&sandbox, 20);
    let bans = || stage.ratelimit.ok("deny list");
    assert!(bans().contains("10.9.0.2"));
    assert!(stage.edge.page("/console/packets/rule?sources=10.9.0.2").contains("Only commands change this rule."));
    for fields in ["kind=deny", "kind=limit&packets=5%2Fs", "delete=true"] {
        let answer = stage.edge.post("/console/packets/apply", &format!("sources=10.9.0.2&{fields}"));
        assert!(answer.status == 409 && text(&answer).contains("Only commands end a ban."), "{answer:?}");
    }
    stage.apply("sources=10.9.0.0%2F24&service=&kind=limit&packets=10%2Fm");
    assert!(bans().contains("10.9.0.2"));
    stage.end();
}

#[test]
fn only_who_may_change_packets_does_and_a_wrong_word_has_one_line() {
    let sandbox = Sandbox::new();
    let mut stage = Stage::start(&sandbox, None);
    let (network, team) = (stage.pages.sign_in_for(NETWORK, "/console/packets"), stage.pages.sign_in(TEAM));
    let limit = format!("{SOURCE}&kind=limit&packets=10%2Fm");
    for visitor in [&network, &team] {
        assert_eq!(visitor.get("/console/packets/rule?sources=default").status, 403);
        for (path, fields) in [("preview", &*limit), ("apply", &limit), ("undo", "number=1")] {
            assert_eq!(visitor.post(&format!("/console/packets/{path}"), fields).status, 403, "{path}");
        }
    }
    assert!(!network.page("/console/packets/rules").contains("/console/packets/rule?"));
    // A link changes nothing.
    assert_eq!(stage.edge.get(&format!("/console/packets/apply?{limit}")).status, 404);
    for (fields, expected) in [
        ("sources=10.9.0.1%2F24&kind=limit&packets=1%2Fs", "sources: "),
        ("sources=x&kind=limit&packets=1%2Fs", "sources: "),
        ("sources=default&service=udp%2Fx&kind=limit&packets=1%2Fs", "service: "),
        ("sources=10.9.0.0%2F24&kind=limit&packets=often", "packets: expected packets per s, m, h or d"),
        ("sources=10.9.0.0%2F24&kind=limit", "a limit needs"),
        ("sources=10.9.0.0%2F24&kind=ban", "kind: expected limit, deny or allow"),
        ("sources=10.9.0.0%2F24&kind=deny&comment=a%0Ab", "comment: "),
        ("sources=10.9.0.0%2F24&delete=true", "has no rule to delete"),
    ] {
        for path in ["preview", "apply"] {
            let answer = stage.edge.post(&format!("/console/packets/{path}"), fields);
            assert!(answer.status == 400 && text(&answer).contains(expected), "{fields}: {answer:?}");
        }
    }
    let answer = stage.edge.post("/console/packets/preview", "sources=default&kind=deny");
    assert!(answer.status == 400 && text(&answer).contains("sources: expected a prefix"), "{answer:?}");
    assert_eq!(stage.edge.post("/console/packets/undo", "number=7").status, 409);
    assert!(!stage.limits().contains("10.9.0.0/24"));
    // The operator takes it back.
    let view = stage.folder.file().with_file_name("view");
    stage.folder.write(&file(&view, false));
    let line = stage.daemon.line();
    assert!(line.contains("view changes: "), "{line}");
    let answer = stage.edge.post("/console/packets/apply", &limit);
    assert!(answer.status == 403 && text(&answer).contains("`changes = true`"), "{answer:?}");
    assert_eq!(stage.edge.get("/console/packets/rule?sources=default").status, 403);
    assert_eq!(network.get("/console/packets/rules").status, 200);
    stage.end();
}

#[test]
fn a_change_that_shuts_out_a_session_is_refused_after_a_warning() {
    let sandbox = Sandbox::new();
    let stage = Stage::start(&sandbox, Some("10.9.0.66 50000 10.9.0.1 22"));
    // The allow of the session has a longer prefix, and wins.
    let page = stage.preview("sources=10.9.0.64%2F27&service=tcp%2F22&kind=deny");
    assert!(!page.contains("An SSH session"), "{page}");
    let deny = "sources=10.9.0.66&service=tcp%2F22&kind=deny";
    let page = stage.preview(deny);
    assert!(page.contains("An SSH session comes from 10.9.0.66. The daemon refuses a change"), "{page}");
    let answer = stage.edge.post("/console/packets/apply", deny);
    assert!(
        answer.status == 409 && text(&answer).contains("comes from 10.9.0.66, which would be denied"),
        "{answer:?}"
    );
    assert!(!stage.ratelimit.ok("deny list").contains("10.9.0.66"));
    let page = stage.preview("sources=198.51.100.0%2F24&kind=deny");
    assert!(!page.contains("An SSH session"), "{page}");
    stage.end();
}
