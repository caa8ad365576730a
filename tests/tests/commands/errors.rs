//! Invalid input and unsuitable hosts: one line, exit status 2, and no change.

use std::process::Command;

use ratelimit_tests::{Fault, Ratelimit, Sandbox, Sink, Traced, VICTIM_LINK, traced};

use crate::PINS;

/// Runs `wrapper ratelimit WORDS` and returns its single line.
fn wrapped(sandbox: &Sandbox, wrapper: &str, words: &str) -> String {
    let ratelimit = Ratelimit::new(sandbox);
    let inner = ratelimit.command(words);
    let mut words = wrapper.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(inner.get_program()).args(inner.get_args());
    let output = ratelimit.output(&mut command);
    assert_eq!((output.status, output.stderr.lines().count()), (2, 1), "{output:?}");
    output.stderr.trim_end().to_owned()
}

#[test]
fn a_missing_interface_is_named_with_the_existing_ones() {
    let sandbox = Sandbox::new();
    let line = Ratelimit::new(&sandbox).fails("attach eth7");
    assert_eq!(line, "ratelimit: no interface \"eth7\": this network namespace has lo, eth0");
}

#[test]
fn an_interface_without_native_xdp_is_never_silently_attached_in_generic_mode() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let line = ratelimit.fails("attach lo");
    assert!(line.starts_with("ratelimit: lo: its driver does not support native XDP: try --mode generic"), "{line}");
    // This holds even if another interface supports it: the command detaches what it attached before the failure.
    ratelimit.fails(&format!("attach {VICTIM_LINK} lo"));
    assert!(!sandbox.ip("link show").contains("xdp"));
    let text = ratelimit.ok("attach lo --mode auto");
    assert!(text.contains("lo: attached, generic"), "{text}");
    ratelimit.ok("detach --all");
}

#[test]
fn another_attached_program_is_named_and_stays() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let sink = Sink::passing(&sandbox, VICTIM_LINK);
    for mode in ["native", "generic", "auto"] {
        let line = ratelimit.fails(&format!("attach {VICTIM_LINK} --mode {mode}"));
        let expected =
            format!("ratelimit: eth0 already has the XDP program \"pass\" (id {}, native): ", sink.program_id());
        assert!(line.starts_with(&expected) && line.contains("--replace"), "{line}");
    }
    assert!(sandbox.ip("link show eth0").contains(&format!("id {}", sink.program_id())));
}

#[test]
fn invalid_numbers_are_refused_before_any_change() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    for (words, expected) in [
        ("limit set 10.0.0.0/33 --packets 1/s", "'10.0.0.0/33' for '<CIDR|default|->...': expected at most 32 bits"),
        ("limit set defualt --packets 1/s", "2001:db8::/48, or the word default"),
        ("limit", "the command is incomplete: `ratelimit help` lists all commands"),
        ("limit delete default", "a similar subcommand exists: 'del'"),
        ("deny add 300.1.1.1", "expected an address or a prefix"),
        ("deny add ::ffff:10.0.0.1", "packets carry the IPv4 address instead: write 10.0.0.1"),
        ("allow add default", "expected an address or a prefix"),
        ("limit set default --packets 0/s", "a rate of zero would drop every packet"),
        ("limit set default --packets 1e99/s", "expected packets per s, m, h or d"),
        ("limit set default --packets 5/fortnight", "expected packets per s, m, h or d"),
        ("limit set default --packets 200M/s", "a packet rate must be between 1/d and 100M/s"),
        ("limit set default --bytes 51GB/s", "a byte rate must be between 1B/s and 50GB/s"),
        ("limit set default --bytes 10/s", "expected bytes or bits per s, m, h or d"),
        ("limit set default --packets 1/s --burst 0", "a burst must be at least 1 packet"),
        ("limit set default --packets 1/d --burst 99", "at this rate, at most 52 packets"),
        ("limit set default --burst 10", "a limit needs --packets RATE, --bytes RATE or --parent SCOPE=RATE"),
        ("limit set default", "a limit needs --packets RATE, --bytes RATE or --parent SCOPE=RATE"),
        ("limit set default --packets 1/s --for 1h", "the default limit cannot expire"),
        ("limit set 10.0.0.1 --packets 1/s --for soon", "expected a number and s, m, h or d"),
        ("attach eth0 --packets 0/s", "a rate of zero"),
        ("attach eth0 --mode sideways", "invalid value 'sideways' for '--mode"),
        ("attach eth0 --ipv6-prefix 129", "129 is not in 1..=128"),
        ("attach", "required arguments were not provided"),
        ("detach", "required arguments were not provided"),
        ("detach eth0 --all", "cannot be used with"),
        ("fly", "unrecognized subcommand 'fly'"),
    ] {
        let line = ratelimit.fails(words);
        assert!(line.contains(expected), "{words}: {line}");
    }
}

#[test]
fn without_an_instance_every_command_prints_what_to_do() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    for words in [
        "status",
        "sources",
        "limit list",
        "limit set default --packets 1/s",
        "limit del default",
        "allow add 10.0.0.1",
        "allow list",
        "deny add 10.0.0.1",
        "deny del 10.0.0.1",
        "list list",
        "cost list",
        "set --shadow on",
        "why 10.0.0.1",
        "suggest --for 1s",
        "events --past",
        "save",
        "detach eth0",
    ] {
        for (pins, option) in [(PINS, ""), ("/sys/fs/bpf/other", "--pins /sys/fs/bpf/other ")] {
            let line = ratelimit.fails(&format!("{option}{words}"));
            let expected = format!("ratelimit is not attached in {pins}: run `ratelimit {option}attach IFACE` first");
            assert_eq!(line, format!("ratelimit: {expected}"), "{words}");
        }
    }
    assert_eq!(ratelimit.ok("detach --all"), format!("nothing is attached in {PINS}\n"));
}

#[test]
fn an_empty_variable_of_the_environment_counts_as_unset_and_an_empty_option_is_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let with = |words: &str, variable: &str| {
        let mut command = ratelimit.command(words);
        ratelimit.output(command.env(variable, ""))
    };
    let variables =
        ["RATELIMIT_PINS", "RATELIMIT_FETCHES", "RATELIMIT_WAITS_FOR_CONFIRM", "SSH_CONNECTION", "NO_COLOR", "=FOO"];
    for variable in variables {
        for words in ["attach eth0", "status", "attach eth0 --confirm 60s", "confirm", "detach --all"] {
            let output = with(words, variable);
            assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{variable}: {words}");
        }
        assert!(sandbox.pins().is_empty(), "{variable}");
    }
    let missing = "required arguments were not provided: --server <URL>";
    let output = with("rules list", "RATELIMIT_SERVER");
    assert!(output.status == 2 && output.stderr.contains(missing), "{output:?}");
    let [unset, empty] = ["NO_SUCH", "RATELIMIT_TOKEN"].map(|name| with("rules list --server unix:/no/socket", name));
    assert_eq!(empty, unset);
    // The last word is empty.
    for words in ["status --pins", "run -c", "check", "status --netns"] {
        let mut command = ratelimit.command(words);
        let output = ratelimit.output(command.arg(""));
        assert!(output.status == 2 && output.stderr.lines().count() == 1, "{words}: {output:?}");
        assert!(output.stderr.contains("a value is required for '"), "{words}: {output:?}");
    }
}

#[test]
fn a_missing_privilege_is_named() {
    let sandbox = Sandbox::new();
    for (taken, named) in [
        ("-net_admin", "CAP_NET_ADMIN"),
        ("-bpf,-sys_admin", "CAP_BPF"),
        ("-perfmon,-sys_admin", "CAP_PERFMON"),
        ("-all", "CAP_NET_ADMIN"),
    ] {
        let line = wrapped(&sandbox, &format!("setpriv --bounding-set={taken} --inh-caps={taken}"), "attach eth0");
        assert!(line.starts_with(&format!("ratelimit: missing privilege {named}: ")), "{line}");
    }
}

#[test]
fn a_kernel_is_judged_by_its_features_and_not_by_its_version() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let mut command = Command::new("setarch");
    command.arg("--uname-2.6").arg(ratelimit.command("").get_program()).args(["attach", "eth0"]);
    assert!(sandbox.output(&mut command).status.success());
    ratelimit.ok("detach --all");
    // A program of six instructions tries what ratelimit needs.
    let names = ["bpf"];
    let whole = traced(&sandbox, &ratelimit.command("attach eth0"), "", &names, None);
    ratelimit.ok("detach --all");
    let tried = whole.calls.iter().find(|call| call.text.contains("insn_cnt=6,")).unwrap();
    let fault = Some(("bpf", tried.number, Fault::Error("EINVAL")));
    let Traced { output, .. } = traced(&sandbox, &ratelimit.command("attach eth0"), "", &names, fault);
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(
        line.starts_with("ratelimit: kernel ")
            && line.ends_with("compare-and-exchange in BPF programs, as in Linux 5.15\n"),
        "{line}"
    );
    assert!(sandbox.pins().is_empty());
}

#[test]
fn without_a_bpf_file_system_the_error_names_where_to_keep_pins() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let line = ratelimit.fails("attach eth0 --pins /run/ratelimit");
    let expected = "ratelimit: /run/ratelimit is not on a BPF file system, where programs and maps are kept: give a folder on one, such as `--pins /sys/fs/bpf/ratelimit`";
    assert_eq!(line, expected);
    for pins in ["relative", "/sys/fs/bpf", "/sys/fs/bpf/no/such/folder"] {
        let line = ratelimit.fails(&format!("attach eth0 --pins {pins}"));
        assert!(
            line.starts_with(&format!("ratelimit: --pins {pins}: give a folder right below a BPF file system")),
            "{line}"
        );
    }
}

#[test]
fn several_interfaces_are_attached_together_or_not_at_all() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 eth0");
    ratelimit.ok("attach eth0 eth0");
    assert_eq!(
        ratelimit.fails("detach eth0 eth9"),
        "ratelimit: ratelimit is not attached to eth9: `ratelimit status` lists where it is"
    );
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], "eth0");
    ratelimit.ok("detach eth0 eth0");
    ratelimit.ok("detach --all");
    let line = ratelimit.fails("attach eth0 eth0 lo");
    assert!(line.starts_with("ratelimit: lo: its driver does not support native XDP"), "{line}");
}

#[test]
fn a_mode_other_than_the_running_one_is_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --mode generic");
    let line = ratelimit.fails("attach eth0 --mode native");
    assert!(line.starts_with("ratelimit: eth0 has ratelimit in generic mode: `ratelimit detach eth0` first"), "{line}");
    ratelimit.ok("attach eth0");
    ratelimit.ok("detach --all");
}
