//! Shadow of one interface in the file.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

use crate::run::FILE;

#[test]
fn the_file_decides_which_interface_is_in_shadow_and_one_that_returns_is_in_shadow_again() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let shadow = || ratelimit.json("status")["interfaces"][0]["shadow"] == true;
    let in_shadow = format!("{FILE}[interface.eth0]\nshadow = true\n");
    folder.write(&in_shadow);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    assert!(shadow());
    assert!(ratelimit.ok("status").starts_with("eth0: native, in shadow, program "));
    assert!(ratelimit.ok("save").contains("[interface.eth0]\nshadow = true\n"));
    assert!(ratelimit.ok("metrics").contains("ratelimit_interface_shadow{interface=\"eth0\"} 1\n"));
    sandbox.renew_link();
    assert_eq!(daemon.line(), "ratelimit: eth0: back again, attached");
    assert!(shadow());

    ratelimit.ok("set --shadow off --interface eth0");
    let status = ratelimit.ok("status");
    let line = format!("\ndiffers from {}: shadow of eth0 is off, not on\n", folder.file().display());
    assert!(!shadow() && status.contains(&line), "{status}");
    let answer = ratelimit.ok("reload");
    assert!(shadow() && answer.contains("; shadow of eth0: off, now on"), "{answer}");
    daemon.line();
    // A daemon that starts again changes nothing.
    daemon.end();
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(!daemon.line().contains("shadow") && shadow());
    // Without the key, the interface enforces. A file that is refused afterwards keeps the shadow.
    let denying = format!("{FILE}[[rule]]\nsource = \"10.9.0.0/16\"\npolicy = \"deny\"\n");
    super::ssh::log_in(&sandbox, "1", "10.9.0.5", "active");
    folder.write(&denying);
    let line = daemon.line();
    assert!(shadow() && line.contains("10.9.0.5, which would be denied by the rule for 10.9.0.0/16"), "{line}");
    let answer = ratelimit.ok("reload --force");
    assert!(!shadow() && answer.contains("; shadow of eth0: on, now off (default)"), "{answer}");
    daemon.line();
    daemon.end();
    ratelimit.ok("detach --all");
    assert!(sandbox.pins().is_empty());
}
