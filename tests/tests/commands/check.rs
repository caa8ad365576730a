//! `check`.

use ratelimit_tests::{Folder, Ratelimit, Sandbox};
use serde_json::json;

use crate::run::FILE;

#[test]
fn check_works_without_an_instance() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let check = format!("check {}", folder.file().display());
    assert_eq!(ratelimit.ok(&check), format!("{}: good, with 1 interface and 2 rules\n", folder.file().display()));
    folder.write("[default]\npacket = \"1/s\"\nburst = -1\n");
    let output = ratelimit.run(&check);
    let shown = folder.file().display().to_string();
    assert_eq!((output.status, output.stderr.as_str()), (1, ""));
    assert_eq!(
        output.stdout,
        format!("{shown}:2:1: packet: unknown key: did you mean packets?\n{shown}:3:9: -1: expected a whole number\n")
    );
    let output = ratelimit.run(&format!("{check} --json"));
    let problems: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        problems["problems"][0],
        json!({"line": 2, "column": 1, "found": "packet", "message": "unknown key: did you mean packets?"})
    );
    assert_eq!(ratelimit.run("check /does/not/exist").status, 2);
    assert!(sandbox.pins().is_empty());
}
