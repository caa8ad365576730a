//! The pages of the server in a real browser, by keyboard and on a phone.

mod browser;
mod packets;

use std::{env, fs, path::Path};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};
use rustix::process::Signal;
use serde_json::{Value, json};

use self::browser::Browser;
use crate::serve::{
    call,
    rules::{TEAM, file, store},
};

const HOST: &str = "http://127.0.0.1:8090";
/// Set to record the pictures of the documents.
const PICTURES: &str = "RATELIMIT_PICTURES";
/// The most bytes and milliseconds of the first view.
const BYTES: u64 = 100_000;
const MILLISECONDS: f64 = 200.0;

fn ask(socket: &Path, user: u64) -> u16 {
    let question = json!({"attributes": {"operation": "createURL", "user": user.to_string()}}).to_string();
    call(socket, "POST /v1/check HTTP/1.1", &question).status
}

/// Presses keys until a field has this text in place of what is there.
fn fill(browser: &mut Browser, name: &str, text: &str) {
    browser.tab_to(&format!("e.name === '{name}'"));
    browser.value("document.activeElement.select()");
    browser.write(text);
}

/// Gives a plot something to show.
fn rehearse(browser: &mut Browser, socket: &Path) {
    if env::var_os(PICTURES).is_none() {
        return;
    }
    for step in 0..30 {
        for user in 0..step % 7 * 4 {
            ask(socket, 200 + user);
        }
        browser.value("new Promise(done => setTimeout(() => done(1), 2500))");
    }
}

fn record(browser: &mut Browser, name: &str) {
    if env::var_os(PICTURES).is_some() {
        browser.value("scrollTo(0, 0)");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images");
        fs::create_dir_all(&folder).unwrap();
        browser.picture(&folder.join(name));
    }
}

fn has_no_horizontal_scroll(browser: &mut Browser) -> bool {
    browser.value("document.documentElement.scrollWidth <= window.innerWidth") == json!(true)
}

/// Returns how many controls are too small for a finger.
fn small_controls(browser: &mut Browser) -> Value {
    let small = "[...document.querySelectorAll('button, input:not([type=hidden]):not([type=checkbox]), select')]\
                 .filter(e => e.getBoundingClientRect().height < 40).length";
    browser.value(small)
}

#[test]
#[ignore = "needs Chromium: cargo xtask integrations runs it"]
fn a_team_changes_a_rule_by_keyboard_and_on_a_phone() {
    let sandbox = Sandbox::new();
    let (folder, kept) = (Folder::new(), Folder::new());
    let socket = folder.file().with_file_name("check.sock");
    let rules =
        file(&store(&kept)).replace("match = { operation = \"createURL\" }", "match = { operation = \"none\" }");
    let console = "[console]\nlisten = \"127.0.0.1:8090\"\n";
    folder.write(&format!("[serve]\nhttp = \"unix:{}\"\n{rules}{console}", socket.display()));
    let command = Ratelimit::new(&sandbox).command(&format!("serve -c {}", folder.file().display()));
    let mut daemon = Daemon::by(&sandbox, command);
    let line = daemon.line();
    assert!(line.ends_with(&format!("console on {HOST}")), "{line}");
    for user in 0..40 {
        (0..=user).for_each(|_| assert_eq!(ask(&socket, user), 200));
    }

    let mut browser = Browser::start(&sandbox);
    browser.resize(1_000, 900, false);
    browser.open(HOST);
    assert_eq!(browser.value("location.pathname"), json!("/console/sign-in"));
    browser.write(TEAM);
    browser.and_load(|browser| browser.press("Enter"));
    assert_eq!(browser.value("location.pathname"), json!("/console"));

    // A new rule, without a mouse.
    browser.tab_to("e.textContent === 'Rules'");
    browser.and_load(|browser| browser.press("Enter"));
    browser.tab_to("e.textContent === 'New rule'");
    browser.and_load(|browser| browser.press("Enter"));
    fill(&mut browser, "name", "team-a-create");
    fill(&mut browser, "limits", "28/h");
    fill(&mut browser, "key", "user");
    fill(&mut browser, "match", "operation=createURL");
    browser.tab_to("e.textContent === 'Preview'");
    browser.and_load(|browser| browser.press("Enter"));
    let text = browser.text();
    assert!(text.contains("The new rule would have refused 12 of 40 clients in the last "), "{text}");
    record(&mut browser, "console-preview.png");
    // A key that is pressed twice confirms nothing.
    assert_eq!(browser.value("document.activeElement.textContent"), json!("What changes"));
    browser.tab_to("e.textContent === 'Put in force'");
    browser.and_load(|browser| browser.press("Enter"));
    assert!(browser.text().contains("Version 1 is in force"), "{}", browser.text());
    assert_eq!((0..30).filter(|_| ask(&socket, 77) == 200).count(), 28);
    // The page sees the requests without being read again.
    let refused = "new Promise(done => { const look = () => { \
                   const found = document.querySelector('#requests svg').getAttribute('aria-label'); \
                   found.includes('at most 0') ? setTimeout(look, 100) : done(found); }; look(); })";
    let label = browser.value(refused);
    assert!(label.as_str().unwrap().starts_with("Requests per second in the last ten minutes: "), "{label}");
    rehearse(&mut browser, &socket);
    record(&mut browser, "console-rule.png");
    browser.tab_to("e.textContent === 'Undo this change'");
    browser.and_load(|browser| browser.press("Enter"));
    assert!(browser.text().contains("it was deleted"), "{}", browser.text());
    assert_eq!((0..30).filter(|_| ask(&socket, 78) == 200).count(), 30);
    browser.tab_to("e.textContent === 'Undo this change'");
    browser.and_load(|browser| browser.press("Enter"));
    assert_eq!((0..30).filter(|_| ask(&socket, 79) == 200).count(), 28);

    // The first view, without a cache.
    browser.ask("Network.setCacheDisabled", &json!({"cacheDisabled": true}));
    let mut times = Vec::new();
    for _ in 0..5 {
        browser.seen.bytes = 0;
        browser.open(&format!("{HOST}/console"));
        times.push(browser.value("performance.getEntriesByType('navigation')[0].loadEventStart").as_f64().unwrap());
    }
    let bytes = browser.seen.bytes;
    times.sort_by(f64::total_cmp);
    println!("console: first view {bytes} bytes, {times:.0?} ms");
    assert!((1..BYTES).contains(&bytes) && times[2] < MILLISECONDS, "{bytes} bytes, {times:?} ms");

    browser.resize(375, 740, true);
    for path in ["/console", "/console/rules", "/console/new", "/console/log", "/console/rule/team-a-create"] {
        browser.open(&format!("{HOST}{path}"));
        assert!(has_no_horizontal_scroll(&mut browser), "{path}");
        assert_eq!(small_controls(&mut browser), json!(0), "{path} has controls that are too small for a finger");
    }
    record(&mut browser, "console-phone.png");
    let elsewhere: Vec<_> = browser.seen.urls.iter().filter(|url| !url.starts_with(&format!("{HOST}/"))).collect();
    assert!(elsewhere.iter().all(|url| *url == HOST || *url == "about:blank"), "{elsewhere:?}");
    assert_eq!(browser.seen.complaints, Vec::<String>::new());
    browser.end();
    daemon.process.signal(Signal::TERM);
    assert!(daemon.process.wait().status.success());
}
