//! `check`.

use ratelimit_tests::{Authority, Folder, Ratelimit, Sandbox, Sink, VICTIM_LINK};
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

#[test]
fn check_of_the_host_names_interfaces_that_cannot_be_limited() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let shown = folder.file().display().to_string();
    let check = format!("check --host {shown}");
    folder.write(FILE);
    assert_eq!(ratelimit.ok(&check), format!("{shown}: good, with 1 interface and 2 rules\n"));
    assert_eq!(ratelimit.json(&check)["host"], json!([]));
    folder.write("interfaces = [\"eth0\", \"wan0\", \"wan1\"]\n[interface.wan1]\nwait = false\n");
    let output = ratelimit.run(&check);
    let waits = "wan0 does not exist on this host: the daemon waits for it, and limits the other interfaces";
    let refuses = "wan1 does not exist on this host, and has wait = false: the daemon refuses the file";
    assert_eq!((output.status, output.stdout), (1, format!("{shown}: {waits}\n{shown}: {refuses}\n")));
    let output = ratelimit.run(&format!("{check} --json"));
    let checked: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(checked["host"][1], json!({"interface": "wan1", "message": refuses}));
    // What another program or the driver refuses.
    folder.write("interfaces = [\"lo\", \"eth0\"]\n");
    let other = Sink::passing(&sandbox, VICTIM_LINK);
    let output = ratelimit.run(&check);
    let (lo, eth0) = output.stdout.trim_end().split_once('\n').unwrap();
    assert!(lo.starts_with(&format!("{shown}: lo: its driver does not support native XDP: ")), "{lo}");
    let found = format!("{shown}: eth0 already has the XDP program \"pass\" (id {}, native): ", other.program_id());
    assert!(eth0.starts_with(&found) && eth0.ends_with("`ratelimit attach --replace` puts ratelimit in its place"));
    drop(other);
    folder.write("interfaces = [\"lo\", \"eth0\"]\n[interface.lo]\nmode = \"auto\"\n");
    ratelimit.ok("attach eth0");
    ratelimit.ok(&check);
    ratelimit.ok("detach --all");
    // Without the option, only the file counts.
    assert_eq!(ratelimit.run(&format!("check {shown}")).status, 0);
    assert!(sandbox.pins().is_empty());
}

#[test]
fn a_server_for_requests_that_could_not_serve_is_told() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let shown = folder.file().display().to_string();
    let rule = "[[check]]\nname = \"all\"\nlimits = \"3/m\"\n";
    let check = |text: &str| {
        folder.write(text);
        let output = ratelimit.run(&format!("check {shown}"));
        assert_eq!((output.status, output.stderr.as_str()), (1, ""));
        output.stdout
    };
    let nothing = "nothing to serve: add `http` or `grpc` to the table [serve]";
    assert_eq!(check(&format!("[serve]\n{rule}")), format!("{shown}: {nothing}\n"));
    let fleet = "usage = \"fleet\" needs a table [fleet] with a server as engine";
    let listen = "[serve]\nhttp = \"127.0.0.1:80\"\n";
    assert_eq!(check(&format!("{listen}usage = \"fleet\"\n{rule}")), format!("{shown}: {fleet}\n"));
    assert!(check(listen).starts_with(&format!("{shown}: nothing would be limited: ")));
    let authority = Authority::new("authority");
    let signed = authority.sign(&["localhost"]);
    let certificate = folder.add("cert.pem", &signed.certificate).display().to_string();
    let key = folder.file().with_file_name("key.pem").display().to_string();
    let tls = format!("[serve]\nhttp = \"127.0.0.1:80\"\ntls-cert = \"{certificate}\"\ntls-key = \"{key}\"\n{rule}");
    let found = check(&tls);
    assert!(found.starts_with(&format!("{shown}: tls-key: {key}: cannot be read: ")), "{found}");
    let _ = folder.add("key.pem", &signed.key);
    folder.write(&tls);
    assert!(ratelimit.ok(&format!("check {shown}")).ends_with("1 rule for requests\n"));
    assert_eq!(ratelimit.json(&format!("check {shown}"))["serve"], json!([]));
    // The server starts with it.
    let signed = authority.sign_authority(&["localhost"]);
    let _ = [folder.add("cert.pem", &signed.certificate), folder.add("key.pem", &signed.key)];
    let output = ratelimit.run(&format!("check {shown}"));
    let warning =
        format!("ratelimit: warning: {shown}: tls-cert: {certificate}: the certificate is that of an authority");
    assert!(output.status == 0 && output.stderr.starts_with(&warning), "{output:?}");
    let _ = folder.add("c\u{1b}.pem", &signed.certificate);
    folder.write(&tls.replace("cert.pem", "c\\u001b.pem"));
    let warning = ratelimit.run(&format!("check {shown}")).stderr;
    assert!(warning.contains("c\\u{1b}.pem: the certificate is") && !warning.contains('\u{1b}'), "{warning}");
    // A problem of one table does not hide those of others.
    let found = check(
        "[serve]\nhttp = 1\nattributes = [\"tenant\"]\n[[check]]\nname = \"a\"\nlimits = \"x\"\nkey = \"tenant\"\n",
    );
    assert!(found.lines().count() == 2 && found.contains(":2:8: 1: ") && found.contains(":6:10: \"x\": "), "{found}");
}

#[test]
fn rules_for_requests_are_counted() {
    let sandbox = Sandbox::new();
    let folder = Folder::new();
    let shown = folder.file().display().to_string();
    folder.write("[[check]]\nname = \"all\"\nlimits = \"3/m\"\n");
    let output = Ratelimit::new(&sandbox).run(&format!("check {shown}"));
    let text = format!("{shown}: good, with 1 rule for requests\n");
    assert_eq!((output.status, output.stdout), (0, text));
    let warning = "`ratelimit serve` refuses this file, because [[check]] needs a table [serve] with `http` or `grpc`";
    assert_eq!(output.stderr, format!("ratelimit: warning: {shown}: {warning}\n"));
    let checked = Ratelimit::new(&sandbox).json(&format!("check {shown}"));
    assert_eq!(checked["warnings"], json!([warning]));
    // Callers add rules, so a file for `serve` can have none.
    let serve = "[serve]\nhttp = \"unix:/run/check.sock\"\nrules = \"/var/lib/rules.toml\"\n";
    let token = format!("[[token]]\nname = \"team\"\nsha256 = \"{}\"\nscope = [\"rules:*\"]\n", "0a".repeat(32));
    let console = "[console]\nlisten = \"unix:/run/console.sock\"\ngroup = \"no:such:group\"\n";
    for (file, content) in [
        (format!("{serve}{console}{token}"), "no rules for requests"),
        (format!("[default]\npackets = \"5/s\"\n{serve}{console}{token}"), "0 interfaces and 1 rule"),
    ] {
        folder.write(&file);
        let output = Ratelimit::new(&sandbox).run(&format!("check {shown}"));
        assert_eq!((output.status, output.stdout), (0, format!("{shown}: good, with {content}\n")));
        let warning = "console: there is no group no:such:group in /etc/group: create it, or write its number";
        assert_eq!(output.stderr, format!("ratelimit: warning: {shown}: {warning}\n"));
    }
    folder.write("[default]\npackets = \"5/s\"\n");
    let text = Ratelimit::new(&sandbox).ok(&format!("check {shown}"));
    assert!(text.starts_with(&format!("{shown}: good, with 0 interfaces and 1 rule\n  no interface: ")), "{text}");
}
