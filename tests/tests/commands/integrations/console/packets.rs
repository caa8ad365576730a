//! The pages about packets in a real browser, by keyboard, with a daemon and real packets.

use ratelimit_tests::{Daemon, Flood, Folder, Frame, PEER_IPV4, Ratelimit, Sandbox};
use rustix::process::Signal;
use serde_json::json;

use super::{BYTES, HOST, MILLISECONDS, browser::Browser, fill, has_no_horizontal_scroll, small_controls};
use crate::{
    metrics::start,
    serve::{
        rules::{file, store},
        token,
    },
};

const EDGE: &str = "ZWRnZQ";

/// Presses Tab to what has this text, and then Enter, which loads another page.
fn press(browser: &mut Browser, text: &str) {
    browser.tab_to(&format!("e.textContent.trim() === '{text}'"));
    browser.and_load(|browser| browser.press("Enter"));
}

#[test]
#[ignore = "needs Chromium: cargo xtask integrations runs it"]
fn a_limit_for_packets_is_searched_previewed_confirmed_and_undone_by_keyboard() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder, kept) = (Ratelimit::new(&sandbox), Folder::new(), Folder::new());
    let view = folder.file().with_file_name("view");
    let rule = |number: u32| {
        format!("[[rule]]\nsource = \"198.51.100.{number}\"\npolicy = \"deny\"\ncomment = \"n-{number}\"\n")
    };
    let rules: String = (0..60).map(rule).collect();
    let text = format!(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"100/s\"\n{rules}[view]\nsocket = \"{}\"\nchanges = true\n",
        view.display()
    );
    let daemon = start(&sandbox, &ratelimit, &folder, &text);
    let edge = token("edge", EDGE, "\"packets:write\"");
    let console = format!("[console]\nlisten = \"127.0.0.1:8090\"\npackets = \"{}\"\n", view.display());
    let server = kept.file().with_file_name("check.sock");
    kept.write(&format!("[serve]\nhttp = \"unix:{}\"\n{}{edge}{console}", server.display(), file(&store(&kept))));
    let mut serve = Daemon::by(&sandbox, ratelimit.command(&format!("serve -c {}", kept.file().display())));
    let line = serve.line();
    assert!(line.ends_with(&format!("console on {HOST}")), "{line}");

    let mut browser = Browser::start(&sandbox);
    browser.resize(1_000, 900, false);
    browser.open(HOST);
    browser.write(EDGE);
    browser.and_load(|browser| browser.press("Enter"));
    assert_eq!(browser.value("location.pathname"), json!("/console/packets"));
    // The search.
    browser.tab_to("e.getAttribute('href') === '/console/packets/rules'");
    browser.and_load(|browser| browser.press("Enter"));
    fill(&mut browser, "q", "n-42");
    browser.and_load(|browser| browser.press("Enter"));
    let found = browser.text();
    assert!(found.contains("198.51.100.42") && !found.contains("198.51.100.41"), "{found}");
    // The first preview is before all packets, so that the daemon sees these as new.
    press(&mut browser, "New rule");
    for _ in 0..2 {
        fill(&mut browser, "sources", "10.9.0.0/24");
        fill(&mut browser, "packets", "10/m");
        press(&mut browser, "Preview");
        let text = browser.text();
        if text.contains("The new rule would have hit 1 of 1 sources in the last ") {
            break;
        }
        assert!(text.contains("The daemon has counted no source of this rule"), "{text}");
        Flood::of(Frame::ack(PEER_IPV4, 80)).send(&sandbox, 5_000);
        browser.open(&format!("{HOST}/console/packets/rule"));
    }
    assert!(browser.text().contains("The new rule would have hit 1 of 1 sources in the last "), "{}", browser.text());
    // A key that is pressed twice confirms nothing.
    assert_eq!(browser.value("document.activeElement.textContent"), json!("What changes"));
    assert!(!ratelimit.ok("limit list").contains("10.9.0.0/24"));
    press(&mut browser, "Put in force");
    assert!(browser.text().contains("The change is in force. It can be undone below."), "{}", browser.text());
    assert!(ratelimit.ok("limit list").contains("10.9.0.0/24"));
    press(&mut browser, "Undo this change");
    assert!(browser.text().contains("There is no such rule."), "{}", browser.text());
    assert!(!ratelimit.ok("limit list").contains("10.9.0.0/24"));

    // Each page, without a cache.
    browser.ask("Network.setCacheDisabled", &json!({"cacheDisabled": true}));
    let pages = ["", "/rules", "/changes", "/rule", "/rule?sources=default&service="];
    for path in pages {
        let mut times = Vec::new();
        for _ in 0..5 {
            browser.seen.bytes = 0;
            browser.open(&format!("{HOST}/console/packets{path}"));
            times.push(browser.value("performance.getEntriesByType('navigation')[0].loadEventStart").as_f64().unwrap());
        }
        let bytes = browser.seen.bytes;
        times.sort_by(f64::total_cmp);
        println!("console: packets{path} {bytes} bytes, {times:.0?} ms");
        assert!((1..BYTES).contains(&bytes) && times[2] < MILLISECONDS, "{path}: {bytes} bytes, {times:?} ms");
    }
    browser.resize(375, 740, true);
    for path in pages {
        browser.open(&format!("{HOST}/console/packets{path}"));
        assert!(has_no_horizontal_scroll(&mut browser), "{path}");
        assert_eq!(small_controls(&mut browser), json!(0), "{path} has controls that are too small for a finger");
    }
    assert_eq!(browser.seen.complaints, Vec::<String>::new());
    browser.end();
    serve.process.signal(Signal::TERM);
    assert!(serve.process.wait().status.success());
    daemon.end();
    ratelimit.ok("detach --all");
}
