//! The pages about packets, with a daemon.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Folder, Frame, PEER_IPV4, Ratelimit, Sandbox, scaled, wait_until};

use super::{console::Pages, rules::TEAM, token};
use crate::metrics::start;

#[test]
fn the_daemon_shows_packets_to_those_who_may_read_about_them() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let ratelimit = Ratelimit::new(&sandbox);
    let view = folder.file().with_file_name("view");
    let text = "interfaces = [\"eth0\"]\n[default]\npackets = \"5/s\"\n[[rule]]\nsource = \"198.51.100.0/24\"\n\
                policy = \"deny\"\ncomment = \"<b>bad\"\n";
    let file = format!("{text}[view]\nsocket = \"{}\"\n", view.display());
    let mut daemon = start(&sandbox, &ratelimit, &folder, &file);
    Flood::of(Frame::ack(PEER_IPV4, 80)).send(&sandbox, 500);
    let network = token("network", "bmV0", "\"packets:read\"");
    let pages = Pages::with(&sandbox, &format!("packets = \"{}\"\n{network}", view.display()));
    let (network, team) = (pages.sign_in("bmV0"), pages.sign_in(TEAM));
    // The server reads the counts for the first time when it starts.
    let mut text = String::new();
    wait_until("the console shows the dropped packets", || {
        text = network.page("/console/packets");
        text.contains("over-packets")
    });
    assert!(
        text.contains("The source sends more packets than its limit.") && text.contains("Packets on eth0"),
        "{text}"
    );
    assert!(text.contains("<code>10.9.0.2</code>"), "{text}");
    let text = network.page("/console/packets/rules?q=bad");
    assert!(text.contains("<code>198.51.100.0/24</code>") && text.contains("&lt;b&gt;bad"), "{text}");
    assert!(network.page("/console/packets/rules?q=nothing").contains("No rule has this text."));
    assert!(network.page("/console/packets/rules?q=bad&page=99").contains("This table has no such page."));
    assert!(network.page("/console/packets/lists").contains("There is no list."));
    assert!(network.page("/console/packets/changes").contains("started with"));
    assert!(!network.page("/console/rules").contains("create-url"));
    for path in ["", "/rules", "/lists", "/changes"] {
        assert_eq!(team.get(&format!("/console/packets{path}")).status, 403, "{path}");
    }
    // There is no time to read very many rules.
    let many: String = (0..200_000).map(|number: u32| format!("{}\n", Ipv4Addr::from(0x0b00_0000 + number))).collect();
    ratelimit.ok_with("deny add -", &many);
    let begin = Instant::now();
    let text = network.page("/console/packets/rules?q=11.");
    let time = begin.elapsed();
    assert!(time < scaled(Duration::from_secs(2)), "{time:?}");
    assert!(text.contains("There was no time to read all rules. These are from the first "), "{text}");
    // A reload moves the socket, and then removes it.
    let other = folder.file().with_file_name("other");
    folder.write(&file.replace("/view\"", "/other\""));
    assert!(daemon.line().contains("view socket: "), "the daemon does not tell the change");
    assert!(other.exists() && !view.exists());
    assert!(network.page("/console/packets/rules").contains("The daemon shows no packets at "));
    let text = network.page("/console/packets");
    assert!(text.contains("id=\"sources\"") && text.contains("The daemon shows no packets at "), "{text}");
    daemon.end();
    assert!(!other.exists());
    pages.server.end();
    ratelimit.ok("detach --all");
}
