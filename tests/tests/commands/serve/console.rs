//! The pages for people, as plain HTTP.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use ratelimit_tests::{Folder, Sandbox};
use rustix::process::Signal;
use serde_json::json;

use super::{
    Answer, Server, call,
    rules::{ADMIN, TEAM, file, store},
};

const FORM: &str = "content-type: application/x-www-form-urlencoded";

/// A server with pages, and the folder of its rules.
pub(super) struct Pages {
    pub(super) server: Server,
    socket: PathBuf,
    _kept: Folder,
}

/// A browser that has signed in.
pub(super) struct Visitor {
    socket: PathBuf,
    /// The header that names the visitor.
    who: String,
    csrf: String,
}

fn tables(kept: &Folder, socket: &Path) -> String {
    let user = "[[user]]\nname = \"alice@example.org\"\nscope = [\"rules:team-a-*\"]\n";
    let console =
        format!("[console]\nlisten = \"unix:{}\"\ngroup = \"1\"\nuser-header = \"X-Remote-User\"\n", socket.display());
    format!("{}{user}{console}", file(&store(kept)))
}

impl Pages {
    fn start(sandbox: &Sandbox) -> Self {
        Self::with(sandbox, "")
    }

    /// Starts with more text behind the table of the pages.
    pub(super) fn with(sandbox: &Sandbox, more: &str) -> Self {
        let kept = Folder::new();
        let socket = kept.file().with_file_name("console.sock");
        let server = Server::start(sandbox, &format!("{}{more}", tables(&kept, &socket)));
        Self { server, socket, _kept: kept }
    }

    fn get(&self, path: &str, headers: &str) -> Answer {
        call(&self.socket, &format!("GET {path} HTTP/1.1{headers}"), "")
    }

    pub(super) fn sign_in(&self, token: &str) -> Visitor {
        self.sign_in_for(token, "/console/new")
    }

    /// Signs in. The visitor may see the page with this path, which has a form.
    pub(super) fn sign_in_for(&self, token: &str, path: &str) -> Visitor {
        let head = format!("POST /console/sign-in HTTP/1.1\r\n{FORM}\r\nsec-fetch-site: same-origin");
        let answer = call(&self.socket, &head, &format!("token={token}"));
        assert_eq!((answer.status, answer.header("location")), (303, Some("/console")), "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert!(pair.starts_with("__Host-ratelimit="), "{cookie}");
        assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Strict");
        self.visitor_for(&format!("\r\ncookie: {pair}"), path)
    }

    fn visitor(&self, who: &str) -> Visitor {
        self.visitor_for(who, "/console/new")
    }

    pub(super) fn visitor_for(&self, who: &str, path: &str) -> Visitor {
        let page = self.get(path, who);
        let text = page.body.as_str().unwrap();
        let csrf = text.split_once("name=\"csrf\" value=\"").unwrap().1.split_once('"').unwrap().0.to_owned();
        Visitor { socket: self.socket.clone(), who: who.to_owned(), csrf }
    }
}

impl Visitor {
    pub(super) fn get(&self, path: &str) -> Answer {
        call(&self.socket, &format!("GET {path} HTTP/1.1{}", self.who), "")
    }

    pub(super) fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body.as_str().unwrap().to_owned()
    }

    pub(super) fn post(&self, path: &str, fields: &str) -> Answer {
        let body = format!("csrf={}&{fields}", self.csrf);
        call(&self.socket, &format!("POST {path} HTTP/1.1\r\n{FORM}{}", self.who), &body)
    }
}

#[test]
fn a_team_learns_nothing_about_a_given_client() {
    let sandbox = Sandbox::new();
    let pages = Pages::start(&sandbox);
    let ask = |pages: &Pages, user: usize| {
        let question = json!({"attributes": {"operation": "other", "user": user.to_string()}});
        assert_eq!(pages.server.check(&question).status, 200);
    };
    [1, 1, 1, 1, 1, 2, 3, 4, 5].into_iter().for_each(|user| ask(&pages, user));
    let (team, admin) = (pages.sign_in(TEAM), pages.sign_in(ADMIN));
    for rule in [
        "limits=2%2Fh&key=user&match=operation%3Dother",
        "limits=2%2Fh&key=user&match=user%3D1",
        "limits=2%2Fh&match=user%3D1",
        "limits=2%2Fh&match=operation%3Dother",
    ] {
        let preview = |visitor: &Visitor, name: &str| {
            let preview = visitor.post("/console/new", &format!("name={name}&{rule}"));
            assert_eq!(preview.status, 200, "{preview:?}");
            preview.body.as_str().unwrap().to_owned()
        };
        let text = preview(&team, "team-a-1");
        assert!(text.contains("needs the scope rules:read") && !text.contains("requests."), "{rule}: {text}");
        assert!(preview(&admin, "team-a-1").contains("The new rule would have refused "), "{rule}");
    }
    // Many clients, of whom conditions choose one.
    (100..120).for_each(|user| ask(&pages, user));
    let chosen = team.post("/console/new", "name=team-a-1&limits=2%2Fh&key=user&match=user%3D1");
    assert!(chosen.body.as_str().unwrap().contains("needs the scope rules:read"), "{chosen:?}");
    let all = team.post("/console/new", "name=team-a-1&limits=2%2Fh&key=user&match=operation%3Dother");
    assert!(all.body.as_str().unwrap().contains("would have refused 1 of 25 clients"), "{all:?}");
    // A rule in force tells its team no more.
    let rule = "limits=2%2Fh&match=user%3D1&shadow=on";
    assert_eq!(team.post("/console/rule/team-a-2/apply", rule).status, 303);
    let text = team.page("/console/rule/team-a-2");
    assert!(text.contains("their requests need the scope rules:read") && !text.contains("<svg"), "{text}");
    assert!(admin.page("/console/rule/team-a-2").contains("<svg"));
    assert_eq!([&team, &admin].map(|visitor| visitor.page("/console").contains("team-a-2")), [false, true]);
    assert_eq!(team.post("/console/rule/team-a-2/apply", "version=1&delete=true").status, 303);
}

#[test]
fn a_change_is_previewed_confirmed_and_undone_and_teams_see_only_their_rules() {
    let sandbox = Sandbox::new();
    let mut pages = Pages::start(&sandbox);
    let question = |user: usize| json!({"attributes": {"operation": "other", "user": user.to_string()}});
    // Three users ask five times, and two once.
    for user in [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 5] {
        assert_eq!(pages.server.check(&question(user)).status, 200);
    }
    for user in 100..120 {
        assert_eq!(pages.server.check(&question(user)).status, 200);
    }
    let (team, admin) = (pages.sign_in(TEAM), pages.sign_in(ADMIN));
    let rule = "limits=2%2Fh&key=user&match=operation%3Dother&algorithm=sliding-log";
    let preview = team.post("/console/new", &format!("name=team-a-1&{rule}"));
    let text = preview.body.as_str().unwrap();
    let expected = "The new rule would have refused 3 of 25 clients in the last ";
    assert!(preview.status == 200 && text.contains(expected) && text.contains("9 of 37 requests"), "{text}");
    assert!(!text.contains("user=1"), "{text}");
    assert_eq!(team.get("/console/rule/team-a-1").status, 404, "a preview has changed something");
    let applied = team.post("/console/rule/team-a-1/apply", rule);
    assert_eq!((applied.status, applied.header("location")), (303, Some("/console/rule/team-a-1?done=1")));
    let allowed = |user| (0..6).filter(|_| pages.server.check(&question(user)).status == 200).count();
    assert_eq!(allowed(11), 2);

    // The second form knows an older version.
    let changed = rule.replace("2%2Fh", "4%2Fh");
    assert_eq!(team.post("/console/rule/team-a-1/apply", &format!("version=1&{changed}")).status, 303);
    let late = team.post("/console/rule/team-a-1/apply", &format!("version=1&{changed}"));
    let link = "<a href=\"/console/rule/team-a-1\">To the rule</a>";
    assert!(late.status == 409 && late.body.as_str().unwrap().contains(link), "{late:?}");
    assert!(team.page("/console/rules").contains("<td>2</td>"), "the version of the rule");
    assert!(admin.page("/console/rules").contains("<td>of the file</td>"));
    assert_eq!(allowed(12), 4);
    let done = "Version 2 is in force. The change";
    assert!(team.page("/console/rule/team-a-1?done=2").contains(done));
    for other in ["1", "2%20of%20all", "x"] {
        let text = team.page(&format!("/console/rule/team-a-1?done={other}"));
        assert!(!text.contains("The change can be undone"), "{text}");
    }
    let text = team.page("/console/rule/team-a-1");
    assert!(text.contains("Undo this change") && text.contains(" clients in the last "), "{text}");
    assert!(!text.contains("user=12"), "{text}");
    // The page asks for its plot by itself, without a replay.
    let live =
        Visitor { who: format!("{}\r\nx-live: 1", admin.who), csrf: String::new(), socket: pages.socket.clone() };
    let text = live.page("/console/rule/team-a-1");
    assert!(text.contains("id=\"requests\"") && !text.contains("Clients of the last"), "{text}");
    assert_eq!(live.get("/console/rule/none").status, 404);
    // Only those who may read all rules see the clients of all teams.
    assert!(admin.page("/console/rule/team-a-1").contains("user=12"));
    assert_eq!(team.post("/console/rule/team-a-1/undo", "version=2").status, 303);
    assert_eq!(allowed(13), 2);
    let text = team.page("/console/log");
    assert!(text.contains("version 3, an undo of version 2</h2>") && text.contains("version 2</h2>"), "{text}");
    let late = team.post("/console/rule/team-a-1/undo", "version=2");
    assert!(late.status == 409 && late.body.as_str().unwrap().contains(link), "{late:?}");
    // A rule that was deleted comes back.
    let preview = team.post("/console/rule/team-a-1/preview", "version=3&delete=true");
    assert!(preview.body.as_str().unwrap().contains("Delete the rule"), "{preview:?}");
    assert!(
        preview.body.as_str().unwrap().contains("<button class=\"danger\">Delete"),
        "it has the focus: {preview:?}"
    );
    assert_eq!(team.post("/console/rule/team-a-1/apply", "version=3&delete=true").status, 303);
    assert_eq!(allowed(14), 6);
    assert!(team.page("/console/rule/team-a-1").contains("it was deleted"));
    assert_eq!(team.post("/console/rule/team-a-1/undo", "version=4").status, 303);
    assert_eq!(allowed(15), 2);
    // The way back of an older deletion is gone.
    assert_eq!(team.post("/console/rule/team-a-1/apply", "version=5&delete=true").status, 303);
    assert_eq!(team.post("/console/rule/team-a-1/undo", "version=4").status, 409);
    assert_eq!(team.post("/console/rule/team-a-1/undo", "version=6").status, 303);
    let large: String = (0..200).map(|number| format!("operation%3Dv{number:098}%0A")).collect();
    let large = team.post("/console/new", &format!("name=team-a-8&limits=2%2Fh&match={large}"));
    assert!(large.status == 400 && large.body.as_str().unwrap().contains("at most 16384 are possible"), "{large:?}");

    let hostile = "limits=2%2Fh&match=operation%3D%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    assert_eq!(admin.post("/console/rule/other/apply", hostile).status, 303);
    for path in ["/console/rules", "/console/rule/other", "/console/log", "/console/rules?q=%22%3E%3Cscript%3E"] {
        let text = admin.page(path);
        assert!(!text.contains("<script>") && !text.contains("\"><script>"), "{path}: {text}");
    }
    assert!(admin.page("/console/rules").contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    for path in ["/console", "/console/rules", "/console/log", "/console/rules?q=other"] {
        let text = team.page(path);
        assert!(!text.contains("/console/rule/other") && !text.contains("alert(1)"), "{path}: {text}");
    }
    assert!(team.page("/console/log").contains("team-a-1"));
    assert_eq!(team.get("/console/rule/other").status, 403);
    for path in ["/console/rule/other/preview", "/console/rule/other/apply", "/console/rule/other/undo"] {
        assert_eq!(team.post(path, hostile).status, 403, "{path}");
    }
    let wrong = team.post("/console/new", "name=team-a-2&limits=often");
    assert!(wrong.status == 400 && wrong.body.as_str().unwrap().contains("limits"), "{wrong:?}");
    assert_eq!(admin.post("/console/rule/create-url/apply", rule).status, 409, "it is a rule of the file");

    // The operator takes the token away.
    let text = std::fs::read_to_string(pages.server.folder.file()).unwrap();
    let (before, from) = text.split_once("[[token]]\nname = \"team-a\"").unwrap();
    let (_, after) = from.split_once("[[check]]").unwrap();
    pages.server.folder.write(&format!("{before}[[check]]{after}"));
    pages.server.daemon.process.signal(Signal::HUP);
    assert!(pages.server.daemon.line().contains("in force"));
    assert_eq!((team.get("/console").status, admin.get("/console").status), (303, 200));
    pages.server.end();
}

#[test]
fn pages_take_no_form_of_another_site_and_load_nothing_from_elsewhere() {
    let sandbox = Sandbox::new();
    let pages = Pages::start(&sandbox);
    for path in ["/", "/console", "/console/rules", "/console/log", "/console/rule/create-url", "/console/none"] {
        let answer = pages.get(path, "\r\ncookie: __Host-ratelimit=0000");
        assert_eq!(answer.status, 303, "{path}: {answer:?}");
    }
    let socket = std::fs::metadata(&pages.socket).unwrap();
    assert_eq!((socket.gid(), socket.mode() & 0o777), (1, 0o660), "callers of the server could be any user");
    let page = pages.get("/console/sign-in", "");
    assert!(page.body.as_str().unwrap().contains("after an hour without a click, and after twelve hours."), "{page:?}");
    assert_eq!(page.status, 200);
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(page.header(name), Some(value));
    }
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"), "{policy}");

    let sign_in = |site: &str, token: &str| {
        call(&pages.socket, &format!("POST /console/sign-in HTTP/1.1\r\n{FORM}{site}"), &format!("token={token}"))
    };
    assert_eq!(sign_in("", "wrong").status, 403);
    assert_eq!(sign_in("", "").status, 403);
    for site in ["\r\nsec-fetch-site: cross-site", "\r\nsec-fetch-site: same-site", "\r\norigin: https://evil.example"]
    {
        let answer = sign_in(site, ADMIN);
        assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{site}");
    }

    let admin = pages.sign_in(ADMIN);
    let other = pages.sign_in(ADMIN);
    let rule = "limits=2%2Fh&key=user";
    let stolen = Visitor { socket: pages.socket.clone(), who: admin.who.clone(), csrf: other.csrf.clone() };
    assert_eq!(stolen.post("/console/rule/new-1/apply", rule).status, 403);
    let none = Visitor { socket: pages.socket.clone(), who: admin.who.clone(), csrf: String::new() };
    assert_eq!(none.post("/console/rule/new-1/apply", rule).status, 403);
    let site = Visitor {
        socket: pages.socket.clone(),
        who: format!("{}\r\nsec-fetch-site: cross-site", admin.who),
        csrf: admin.csrf.clone(),
    };
    assert_eq!(site.post("/console/rule/new-1/apply", rule).status, 403);
    assert_eq!(admin.get("/console/rule/new-1").status, 404);
    // A link or a picture changes nothing.
    assert_eq!(admin.get("/console/rule/new-1/apply?limits=2%2Fh").status, 404);
    let text = admin.page("/console/rules");
    assert!(text.contains("create-url") && !text.contains("new-1"), "{text}");
    assert_eq!(admin.post("/console/sign-out", "").status, 303);
    assert_eq!(admin.get("/console").status, 303);
    assert_eq!(other.get("/console").status, 200);

    // Another token takes the place of the first one.
    let head = format!("POST /console/sign-in HTTP/1.1\r\n{FORM}{}", other.who);
    let answer = call(&pages.socket, &head, &format!("token={TEAM}"));
    let cookie = answer.header("set-cookie").unwrap().split_once("; ").unwrap().0;
    assert!(pages.get("/console", &format!("\r\ncookie: {cookie}")).body.as_str().unwrap().contains("team-a"));
    assert_eq!(other.get("/console").status, 303);
    let other = pages.sign_in(ADMIN);
    assert_eq!(other.get("/console?live=1").status, 200);

    // A proxy has signed a person in.
    let alice = pages.visitor("\r\nx-remote-user: alice@example.org");
    assert!(alice.page("/console").contains("user:alice@example.org"));
    assert_eq!(alice.post("/console/rule/team-a-7/apply", rule).status, 303);
    assert_eq!(alice.post("/console/rule/other/apply", rule).status, 403);
    assert!(alice.page("/console/log").contains("by user:alice@example.org"));
    assert_eq!(pages.get("/console/sign-in", "\r\nx-remote-user: mallory").status, 403);
    // The token of a person behind the proxy does not make the person another one.
    let both = format!("\r\nx-remote-user: mallory{}", other.who);
    assert_eq!(pages.get("/console", &both).status, 303);
    pages.server.end();
}
