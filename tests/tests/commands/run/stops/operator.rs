//! Rules of an operator take the place of limits for applications.

use ratelimit_tests::{Folder, PEER_IPV4, Ratelimit, Sandbox, VICTIM_IPV4};
use serde_json::json;

use super::{
    super::crowdsec::{Api, decision},
    Connection, end, file, limits, listener,
    on::{LIMIT, start_on, stop},
    refused,
};

const GIVEN_WAY: &str =
    "ratelimit: 10.9.0.2 tcp/8443: the limit of an application has given way to the operator's rules";

#[test]
fn a_limit_of_an_address_that_becomes_spared_ends() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start_on(&sandbox, &ratelimit, &folder);
    let listener = listener(&sandbox, VICTIM_IPV4);
    let connection = Connection::from(&sandbox, &listener, PEER_IPV4);
    // The second limit lasts for 20 seconds, so it does not end by itself meanwhile.
    stop(&folder, &connection, &mut daemon);
    assert!(daemon.line().ends_with("the limit of an application has ended"));
    stop(&folder, &connection, &mut daemon);
    folder.write(&file(&folder, "mode = \"on\"\ntrusted-proxies = [\"10.9.0.0/24\"]\n"));
    assert!(daemon.line().contains("reloaded"));
    let line = daemon.line();
    let why = "10.9.0.2 is within 10.9.0.0/24 of trusted-proxies, or contains it";
    assert_eq!(line, format!("ratelimit: 10.9.0.2 tcp/8443: the limit of an application has ended: {why}"));
    assert_eq!(limits(&ratelimit), ["default any 1000/s config"]);
    refused(&folder, &connection.request(None), "spared", "trusted-proxies");
    end(&ratelimit, daemon);
}

#[test]
fn rules_and_lists_of_an_operator_take_the_place_of_a_limit() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start_on(&sandbox, &ratelimit, &folder);
    let listener = listener(&sandbox, VICTIM_IPV4);
    let connection = Connection::from(&sandbox, &listener, PEER_IPV4);
    for (change, input, back) in [
        ("allow add 10.9.0.2", None, "allow del 10.9.0.2"),
        ("allow add 10.9.0.0/16", None, "allow del 10.9.0.0/16"),
        ("deny add 10.9.0.2 --for 1h", None, "deny del 10.9.0.2"),
        ("limit set 10.9.0.0/24 --service tcp --packets 900/s", None, "limit del 10.9.0.0/24 --service tcp"),
        ("limit set 10.9.0.2 --service tcp/8443 --packets 900/s", None, "limit del 10.9.0.2 --service tcp/8443"),
        ("limit set default --service tcp --packets 3/s", None, "limit del default --service tcp"),
        ("list set slow - --packets 900/s", Some("10.9.0.0/24\n"), "list del slow"),
    ] {
        stop(&folder, &connection, &mut daemon);
        assert!(limits(&ratelimit).contains(&LIMIT.to_owned()));
        match input {
            Some(input) => drop(ratelimit.ok_with(change, input)),
            None => drop(ratelimit.ok(change)),
        }
        let after = limits(&ratelimit);
        assert!(!after.iter().any(|limit| limit.contains("application")), "{change}: {after:?}");
        assert_eq!(daemon.line(), GIVEN_WAY, "{change}");
        refused(&folder, &connection.request(None), "ruled", "10.9.0.2");
        ratelimit.ok(back);
    }
    // Rules of others, or for other packets, change nothing.
    stop(&folder, &connection, &mut daemon);
    ratelimit.ok("allow add 10.9.1.0/24");
    ratelimit.ok("limit set 10.9.0.0/24 --service udp --packets 900/s");
    assert!(limits(&ratelimit).contains(&LIMIT.to_owned()));
    // Neither does a reload, unless the file has a rule about the source.
    let api = Api::start(&sandbox);
    let crowdsec = format!("[crowdsec]\nkey-file = \"{}\"\n", folder.add("key", "secret\n").display());
    folder.write(&(file(&folder, "mode = \"on\"\ntrusted-proxies = [\"192.0.2.1\"]\n") + &crowdsec));
    assert!(daemon.line().contains("reloaded, rules: 0 set, 0 deleted, 1 unchanged"));
    assert!(limits(&ratelimit).contains(&LIMIT.to_owned()));
    // A decision of CrowdSec is no rule of the operator. Its list outranks the limit meanwhile.
    api.asked(true).decisions(&json!([decision(1, "10.9.0.2", "ban", "1h")]), &json!(null));
    assert!(daemon.line().ends_with("crowdsec: 1 decisions, 1 entries in force"));
    assert!(limits(&ratelimit).contains(&LIMIT.to_owned()));
    let rule = "[[rule]]\nsource = \"10.9.0.2\"\nservice = \"tcp/8443\"\npackets = \"700/s\"\n";
    folder.write(&(file(&folder, "mode = \"on\"\n") + rule));
    // Two threads tell of it.
    let lines = [daemon.line(), daemon.line()];
    let reloaded = "reloaded, rules: 1 set, 0 deleted, 1 unchanged; added 10.9.0.2 tcp/8443 (700/s); stops trusted-proxies: 1 with 192.0.2.1, now none";
    assert!(lines.iter().any(|line| line.ends_with(reloaded)), "{lines:?}");
    assert!(lines.iter().any(|line| line == GIVEN_WAY), "{lines:?}");
    assert!(limits(&ratelimit).contains(&"10.9.0.2 tcp/8443 700/s config".to_owned()));
    end(&ratelimit, daemon);
}

#[test]
fn limits_make_room_for_services_of_an_operator() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start_on(&sandbox, &ratelimit, &folder);
    let listener = listener(&sandbox, VICTIM_IPV4);
    let connection = Connection::from(&sandbox, &listener, PEER_IPV4);
    stop(&folder, &connection, &mut daemon);
    // A port belongs to one service only.
    ratelimit.ok("limit set 10.1.0.0/16 --service tcp/8000-9000 --packets 900/s");
    assert_eq!(daemon.line(), GIVEN_WAY);
    refused(&folder, &connection.request(None), "ruled", "tcp/8000-9000 as a whole");
    ratelimit.ok("limit del 10.1.0.0/16 --service tcp/8000-9000");
    // A change that fails all the same ends no limit.
    stop(&folder, &connection, &mut daemon);
    ratelimit.ok("limit set 10.1.0.0/16 --service tcp/8100 --packets 900/s");
    let failed = ratelimit.run("limit set 10.1.0.0/16 --service tcp/8000-9000 --packets 900/s");
    assert!(failed.status != 0 && failed.stderr.contains("tcp/8100"), "{failed:?}");
    assert!(limits(&ratelimit).contains(&LIMIT.to_owned()));
    ratelimit.ok("limit del 10.1.0.0/16 --service tcp/8100");
    ratelimit.ok("limit del 10.9.0.2 --service tcp/8443");
    assert_eq!(daemon.line(), GIVEN_WAY);
    // There are 255 services.
    stop(&folder, &connection, &mut daemon);
    let services = (1..=255).map(|port| format!("[service.\"udp/{port}\"]\npackets = \"1000/s\"\n"));
    folder.write(&(file(&folder, "mode = \"on\"\n") + &services.collect::<String>()));
    // Two threads tell of it.
    let lines = [daemon.line(), daemon.line()];
    let reloaded = "reloaded, rules: 255 set, 0 deleted, 1 unchanged; added default udp/1 (1000/s), ";
    assert!(lines.iter().any(|line| line.contains(reloaded) && line.ends_with(" and 250 more")), "{lines:?}");
    assert!(lines.iter().any(|line| line == GIVEN_WAY), "{lines:?}");
    refused(&folder, &connection.request(None), "too-many", "255 services");
    end(&ratelimit, daemon);
}
