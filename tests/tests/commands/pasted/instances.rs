//! A command that one instance prints acts on this instance, and on no other.

use ratelimit_tests::{Flood, Frame, Output, Ratelimit, Sandbox, wait_until};

use super::{Shell, commands};
use crate::PINS;

const OWN: &str = "/sys/fs/bpf/own one";

/// Words that stand for others.
fn is_template(command: &str) -> bool {
    command.ends_with(" deny add")
        || command.ends_with(" attach")
        || command.contains('…')
        || command.split(' ').any(|word| word.chars().any(char::is_uppercase) && !word.contains('/'))
}

/// What an instance has, and who has changed it.
fn state(ratelimit: &Ratelimit<'_>) -> [String; 3] {
    ["save", "events --past", "deny list -j"].map(|words| {
        let Output { status, stdout, .. } = ratelimit.run(words);
        format!("{status} {stdout}")
    })
}

struct Instances<'a> {
    shell: Shell<'a>,
    other: &'a Ratelimit<'a>,
    before: [String; 3],
    pasted: usize,
}

impl Instances<'_> {
    /// Runs a command about the own instance, and returns all that it prints.
    fn says(&self, words: &str) -> String {
        let Output { stdout, stderr, .. } = self.shell.paste(&format!("ratelimit --pins '{OWN}' {words}"));
        stdout + &stderr
    }

    /// Does so, and pastes each command in its output. At least so many must be there.
    fn follows(&mut self, words: &str, least: usize) {
        let said = self.says(words);
        let commands = commands(&said);
        assert!(commands.len() >= least, "{words}: {said}");
        for command in commands {
            let is_about_none =
                ["help", "serve", "check "].iter().any(|word| command.contains(&format!("ratelimit {word}")));
            assert!(is_about_none || command.contains(&format!("--pins '{OWN}' ")), "{words}: {command}: {said}");
            if is_about_none || is_template(&command.replace(OWN, "")) {
                continue;
            }
            let Output { status, stderr, .. } = self.shell.paste(&command.replace("sudo ", ""));
            assert!(status < 2, "{words}: {command}: {stderr}");
            self.pasted += 1;
            assert_eq!(state(self.other), self.before, "{words}: {command}");
        }
    }
}

#[test]
fn printed_commands_act_on_the_instance_that_printed_them_and_on_no_other() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.add_link("eth1", "peer1");
    ratelimit.ok("attach eth1 --packets 7/s --shadow");
    ratelimit.ok("deny add 10.9.0.66 10.9.0.67");
    let before = state(&ratelimit);
    let shell = Shell::new(&sandbox, &ratelimit);
    let mut own = Instances { shell, other: &ratelimit, before, pasted: 0 };
    own.follows("status", 0);
    own.follows("attach eth0 --shadow", 2);
    own.follows("attach eth0 --shadow=on --packets 100/s", 0);
    own.follows("status", 1);
    own.follows("doctor eth0", 0);
    own.follows("set --shadow on", 0);
    own.follows("limit set default --packets 100/s --over-limit shadow", 0);
    own.follows("set --shadow off", 1);
    assert_eq!(own.says("limit list -j").matches("\"over_limit\":\"drop\"").count(), 1);
    own.follows("attach eth0", 0);
    for wrong in [
        "set",
        "set --interface eth0",
        "limit set default --packets 0/s",
        "limit 10.9.0.1 --packets 5/s",
        "start",
        "ban 10.9.0.1",
        "show",
        "attach eth9",
        "flush",
    ] {
        own.follows(wrong, 0);
    }
    own.follows("attach eth0 --shadow", 0);
    own.follows("deny add 10.8.0.0/24", 0);
    own.follows("deny del 10.8.0.1", 0);
    own.follows("why 10.8.0.0/24", 1);
    own.follows("top", 2);
    own.follows("reload", 1);
    own.follows("confirm", 0);
    own.follows("detach eth9", 1);
    // A list that would become empty.
    own.shell.ok(&format!("echo 10.7.0.1 | ratelimit --pins '{OWN}' list set evil - --deny"));
    own.follows("list set evil /dev/null --deny", 1);
    assert!(own.says("list list").contains("no lists"), "{}", own.says("list list"));
    // One source floods.
    own.says("set --shadow off");
    own.says("attach eth0 --packets 10/s");
    let flood = Flood::of(Frame::udp([10, 9, 0, 68], 9)).start(&sandbox);
    wait_until("one source is named", || own.says("status").contains("deny add 10.9.0.68 --for 10m"));
    own.follows("status", 1);
    let json = own.says("status -j");
    flood.stop();
    assert!(own.says("deny list").contains("10.9.0.68"));
    assert!(!ratelimit.ok("deny list").contains("10.9.0.68"));
    assert!(json.contains("diagnosis"), "{json}");
    own.follows("suggest --for 1s", 0);
    own.follows("doctor -j eth0", 0);
    let refused = own.says("attach eth1");
    assert!(refused.contains(&format!("`ratelimit --pins {PINS} detach eth1` removes it")), "{refused}");
    own.follows("detach eth0", 1);
    assert_eq!(state(&ratelimit), own.before);
    assert!(own.pasted > 8, "{}", own.pasted);
    own.says("detach --all");
    ratelimit.ok("detach --all");
}

#[test]
fn a_comment_is_printed_as_it_was_given() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let shell = Shell::new(&sandbox, &ratelimit);
    let at = |words: &str| shell.ok(&format!("ratelimit --pins '{OWN}' {words}"));
    at("attach eth0");
    at("deny add 10.9.0.66 --comment 'see `ratelimit deny list`'".replace('\'', "\"").replace('`', "\\`").as_str());
    assert!(at("deny list -j").contains("\"comment\":\"see `ratelimit deny list`\""));
    assert!(at("save").contains("see `ratelimit deny list`"));
    at("detach --all");
}

#[test]
fn a_variable_or_an_option_that_names_the_usual_folder_is_told_apart() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let shell = Shell::new(&sandbox, &ratelimit);
    let attach = |before: &str, option: &str| {
        let text = shell.ok(&format!("{before} ratelimit {option} attach eth0 --shadow"));
        let all = commands(&text);
        shell.ok(&format!("{before} ratelimit {option} detach --all"));
        all.into_iter().find(|command| command.contains("set --unknown auto")).unwrap()
    };
    assert_eq!(attach("", ""), "ratelimit set --unknown auto");
    assert_eq!(attach("", &format!("--pins {PINS}/")), "ratelimit set --unknown auto");
    assert_eq!(attach("RATELIMIT_PINS=/sys/fs/bpf/own", ""), "ratelimit --pins /sys/fs/bpf/own set --unknown auto");
    let usual = attach("RATELIMIT_PINS=/sys/fs/bpf/own", &format!("--pins {PINS}"));
    assert_eq!(usual, format!("ratelimit --pins {PINS} set --unknown auto"));
}

#[test]
fn printed_commands_name_the_network_namespace() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let shell = Shell::new(&sandbox, &ratelimit);
    sandbox.ip("netns add blue");
    sandbox.ip("-n blue link add eth0 type veth peer name inner1");
    sandbox.ip("link add inner1 type veth peer name inner2");
    let words = format!("--pins '{OWN}' --netns blue");
    for command in commands(&shell.ok(&format!("ratelimit {words} attach eth0 --shadow"))) {
        assert!(command.starts_with(&format!("ratelimit {words} ")), "{command}");
    }
    let findings = shell.paste(&format!("ratelimit {words} doctor eth0 inner1")).stdout;
    let fixes = findings.lines().filter_map(|line| line.trim().strip_prefix("fix: "));
    let of_inner: Vec<_> = fixes.filter(|fix| fix.contains("inner1")).collect();
    assert!(of_inner.iter().all(|fix| fix.contains("netns")) && !of_inner.is_empty(), "{findings}");
    let attach = of_inner.iter().find(|fix| fix.contains(" attach inner1")).unwrap();
    shell.ok(attach);
    assert!(sandbox.ip("-n blue link show inner1").contains("xdp"));
    assert!(!sandbox.ip("link show inner1").contains("xdp") && !sandbox.ip("link show eth0").contains("xdp"));
    shell.ok(&format!("ratelimit {words} detach --all"));
    sandbox.ip("netns del blue");
}
