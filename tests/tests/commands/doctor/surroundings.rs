//! Checks of the process, the host, and other software on it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

use super::{super::run::FILE, about, paragraphs, read};

/// Runs `wrapper ratelimit doctor WORDS` and returns its paragraphs.
fn wrapped(ratelimit: &Ratelimit<'_>, wrapper: &str, words: &str) -> Vec<String> {
    let inner = ratelimit.command(&format!("doctor {words}"));
    let mut wrapper = wrapper.split_whitespace();
    let mut command = Command::new(wrapper.next().unwrap());
    command.args(wrapper).arg(inner.get_program()).args(inner.get_args());
    read(&ratelimit.output(&mut command))
}

/// Runs a command in the victim's namespace.
fn run(sandbox: &Sandbox, line: &str) {
    let mut words = line.split_whitespace();
    let output = sandbox.output(Command::new(words.next().unwrap()).args(words));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn missing_privileges_are_named_and_the_other_checks_run() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for (taken, named) in [
        ("-net_admin", "CAP_NET_ADMIN"),
        ("-bpf,-sys_admin", "CAP_BPF"),
        ("-perfmon,-sys_admin", "CAP_PERFMON"),
        ("-all", "CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON"),
    ] {
        let all = wrapped(&ratelimit, &format!("setpriv --bounding-set={taken} --inh-caps={taken}"), "eth0");
        let expected = format!(
            "error privileges: this process lacks {named}\nThey are needed to attach, and to read a running instance.\nfix: sudo ratelimit doctor eth0"
        );
        assert_eq!(all[0], expected);
        assert!(all.contains(&"ok eth0, link: up".to_owned()), "{all:#?}");
        // The owner of the program is unknown, so the text does not suggest to replace it.
        let program = all.iter().find(|paragraph| paragraph.starts_with("note eth0, other-program: ")).unwrap();
        assert!(program.contains(", native) that this user may not read\n"), "{program}");
        assert!(program.ends_with("\nfix: sudo ratelimit doctor eth0"), "{program}");
        assert!(all.iter().all(|paragraph| !paragraph.contains("--replace")), "{all:#?}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_kernel_is_judged_by_its_features() {
    let sandbox = Sandbox::new();
    let all = wrapped(&Ratelimit::new(&sandbox), "setarch --uname-2.6", "eth0");
    assert!(all[1].starts_with("ok kernel: 2.6."), "{}", all[1]);
}

#[test]
fn an_unusable_pin_folder_is_reported_with_an_alternative() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let expected = "error bpffs: no BPF file system is mounted at /run\nPrograms and rules need one, and mounting one there would hide the existing files.\nfix: ratelimit attach IFACE --pins /sys/fs/bpf/ratelimit";
    assert_eq!(about(&ratelimit, "eth0 --pins /run/ratelimit", "bpffs"), expected);
    let expected = "note bpffs: no BPF file system is mounted at /sys/fs/bpf\n`ratelimit attach` mounts it.\nfix: mount -t bpf -o mode=0700 bpf /sys/fs/bpf";
    let findings = read(&ratelimit.output(&mut ratelimit.in_container("doctor eth0", "")));
    assert!(findings.iter().any(|finding| finding == expected), "{findings:#?}");
    assert_eq!(about(&ratelimit, "eth0", "bpffs"), "ok bpffs: mounted at /sys/fs/bpf");
}

#[test]
fn an_unusable_instance_and_other_instances_are_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let other = "--pins /sys/fs/bpf/second";
    let expected = "note other-instances: there are other instances: /sys/fs/bpf/ratelimit\nEach instance has its own limits, so a source can send as much as all of them admit in total.";
    assert_eq!(about(&ratelimit, &format!("lo {other}"), "other-instances"), expected);
    let all = paragraphs(&ratelimit, "");
    assert!(all.iter().all(|paragraph| !paragraph.contains("other-instances")), "{all:#?}");
    sandbox.victim(|| fs::remove_file("/sys/fs/bpf/ratelimit/program").unwrap());
    let expected = "error instance: the pinned program is missing, as after an attach that was killed: run `ratelimit attach IFACE` again, or `ratelimit detach --all` if that fails\nOnly `ratelimit detach --all` can use it. The attached program keeps running.\nfix: ratelimit detach --all";
    assert_eq!(about(&ratelimit, "", "instance"), expected);
    ratelimit.ok("detach --all");
}

#[test]
fn a_program_of_another_version_counts_as_ratelimit() {
    let sandbox = Sandbox::new();
    let (this, other) = (Ratelimit::new(&sandbox), Ratelimit::other(&sandbox));
    other.ok("attach eth0");
    let all = paragraphs(&this, "");
    assert!(
        all.iter().all(|paragraph| !paragraph.contains("detach --all") && !paragraph.contains("--replace")),
        "{all:#?}"
    );
    let instance = about(&this, "", "instance");
    assert!(
        instance.starts_with("error instance: the instance in /sys/fs/bpf/ratelimit is of another version (layout "),
        "{instance}"
    );
    let expected =
        "\nCommands of this version cannot use it before an upgrade. Its limits stay in force.\nfix: ratelimit upgrade";
    assert!(instance.ends_with(expected), "{instance}");
    assert_eq!(about(&this, "", "eth0, native-xdp"), "ok eth0, native-xdp: attached, native (driver veth)");
    this.ok("upgrade");
    assert_eq!(about(&this, "", "instance"), "ok instance: /sys/fs/bpf/ratelimit");
    this.ok("detach --all");
}

#[test]
fn a_running_daemon_is_reported_and_a_missing_one_when_it_owns_rules() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox
        .victim(|| fs::write("/run/rules.toml", "interfaces = [\"eth0\"]\n[default]\npackets = \"1000/s\"\n").unwrap());
    let mut command = ratelimit.command("run -c /run/rules.toml");
    command.stderr(Stdio::piped());
    let mut daemon = sandbox.start(command);
    let mut lines = BufReader::new(daemon.child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("in force"), "{line}");
    assert_eq!(about(&ratelimit, "", "daemon"), "ok daemon: runs");
    // A killed daemon leaves its socket.
    drop(daemon);
    assert!(sandbox.victim(|| fs::exists("/run/ratelimit/socket").unwrap()));
    let expected = "note daemon: none applies the configuration file\nRules of a file are in force, but changes of the file have no effect.\nfix: ratelimit run -c FILE";
    assert_eq!(about(&ratelimit, "", "daemon"), expected);
    ratelimit.ok("detach --all");
}

#[test]
fn a_daemon_whose_file_is_not_in_force_is_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    // A daemon whose file attaches nothing is fine.
    folder.write("interfaces = []\n[default]\npackets = \"1000/s\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    assert_eq!(about(&ratelimit, "", "daemon"), "ok daemon: runs");
    folder.write(FILE);
    daemon.line();
    let text = ratelimit.ok("detach --all");
    let again = "the daemon still runs, and attaches again when its file or one of its lists changes: to prevent that, stop it, as with `systemctl stop ratelimit`\n";
    assert_eq!(text, format!("detached from eth0; all rules and counters are removed\n{again}"));
    let expected = "warning daemon: runs, but no instance exists: its file is not in force\nNothing is limited until it reads the file again.\nfix: ratelimit reload";
    assert_eq!(about(&ratelimit, "", "daemon"), expected);
    ratelimit.ok("reload");
    assert!(daemon.line().ends_with("attached to eth0"));
    assert_eq!(about(&ratelimit, "", "daemon"), "ok daemon: runs");
    assert_eq!(ratelimit.json("detach --all"), serde_json::json!({"detached": ["eth0"], "daemon_runs": true}));
    daemon.end();
}

#[test]
fn an_ssh_session_that_rules_block_is_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let through_ssh = || {
        let mut command = ratelimit.command("doctor");
        let all = read(&ratelimit.output(command.env("SSH_CONNECTION", "10.9.0.5 50000 10.9.0.1 22")));
        all.into_iter().find(|paragraph| paragraph.contains(" ssh: ")).unwrap()
    };
    ratelimit.ok("attach eth0");
    let session = "ssh: this session comes from 10.9.0.5, which ";
    let mend = "\nfix: ratelimit allow add 10.9.0.5";
    assert_eq!(through_ssh(), format!("ok {session}has no limit"));
    ratelimit.ok("limit set default --packets 1000/s");
    let expected = format!(
        "note {session}is limited to 1000/s per source, burst 1000\nA terminal needs less. Copying files may need more.{mend}"
    );
    assert_eq!(through_ssh(), expected);
    ratelimit.ok("limit set 10.9.0.0/24 --packets 6/m");
    let expected = format!(
        "warning {session}is limited to 6/m per source, burst 6\nA session sometimes needs more, and then stalls.{mend}"
    );
    assert_eq!(through_ssh(), expected);
    // The next connection.
    ratelimit.ok("deny add 10.9.0.0/24 --service tcp-syn");
    let expected = format!(
        "error {session}the rules deny\nA new session cannot be opened. This one hangs if it uses an attached interface.{mend}"
    );
    assert_eq!(through_ssh(), expected);
    ratelimit.ok("allow add 10.9.0.5");
    assert_eq!(through_ssh(), format!("ok {session}has no limit"));
    // Outside of a session there is no such check.
    let all = paragraphs(&ratelimit, "");
    assert!(all.iter().all(|paragraph| !paragraph.contains(" ssh: ")), "{all:#?}");
    ratelimit.ok("detach --all");
}

#[test]
fn limits_of_nftables_and_iptables_are_named() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let firewall = || -> Vec<String> {
        paragraphs(&ratelimit, "eth0").into_iter().filter(|paragraph| paragraph.contains(" firewall: ")).collect()
    };
    let nft = |words: &str| run(&sandbox, &format!("nft {words}"));
    nft("add table inet f");
    nft("add chain inet f in { type filter hook input priority 0 ; }");
    nft("add chain inet f out { type filter hook output priority 0 ; }");
    nft("add rule inet f out limit rate over 10/second drop");
    nft("add rule inet f in limit rate 5/minute log");
    assert_eq!(firewall(), ["ok firewall: no rule limits received packets"]);

    nft("add rule inet f in tcp dport 22 limit rate over 3/minute drop");
    let narrow = "note firewall: some packets are limited by nftables: inet f in, handle 5\nFor these packets the lower limit applies.";
    assert_eq!(firewall(), [narrow]);
    nft("add set inet f s { type ipv4_addr ; flags dynamic ; size 1000 ; timeout 10s ; }");
    nft("add rule inet f in update @s { ip saddr limit rate over 7/second } drop");
    let why = "Packets that ratelimit passes are limited again. The lower limit applies, and `ratelimit status` does not show its drops.";
    let wide = format!(
        "warning firewall: all packets are limited by nftables: inet f in, handle 7\n{why}\nfix: nft delete rule inet f in handle 7"
    );
    assert_eq!(firewall(), [wide.as_str(), narrow]);
    nft("delete rule inet f in handle 7");
    assert_eq!(firewall(), [narrow]);
    nft("delete table inet f");

    let rule = "INPUT -m hashlimit --hashlimit-above 10/sec --hashlimit-mode srcip --hashlimit-name x -j DROP";
    run(&sandbox, &format!("iptables-nft -A {rule}"));
    let wide = format!(
        "warning firewall: all packets are limited by nftables: ip filter INPUT, handle 2\n{why}\nfix: nft delete rule ip filter INPUT handle 2"
    );
    assert_eq!(firewall(), [wide]);
    run(&sandbox, &format!("iptables-nft -D {rule}"));

    // Newer kernels may lack the old tables.
    let output = sandbox.output(Command::new("iptables-legacy").args(["-L", "-n"]));
    if !output.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    run(&sandbox, &format!("iptables-legacy -A {rule}"));
    let found = firewall();
    assert!(
        found.len() == 1
            && found[0].starts_with(
                "warning firewall: all packets are limited by iptables-legacy: filter -A INPUT -m hashlimit "
            ),
        "{found:?}"
    );
    let mend = found[0].split_once("\nfix: ").unwrap().1;
    assert!(mend.starts_with("iptables-legacy -t filter -D INPUT -m hashlimit --hashlimit-above 10/sec"), "{mend}");
    run(&sandbox, mend);
    assert_eq!(firewall(), ["ok firewall: no rule limits received packets"]);
}

#[test]
fn missing_nftables_is_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let mut command = ratelimit.command("doctor eth0");
    let all = read(&ratelimit.output(command.env("PATH", "/nowhere")));
    let expected = "note firewall: rules of nftables cannot be read: nft: No such file or directory (os error 2)\nIf they limit packets too, the lower limit applies.";
    assert_eq!(all.last().unwrap(), expected);
}
