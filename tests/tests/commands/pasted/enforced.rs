//! Shadow, and the commands that end it.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use rustix::process::Signal;

use super::{Shell, commands};

const README: &str = include_str!("../../../../README.md");

/// Returns the console lines of README's section with the five commands.
fn five_commands() -> Vec<&'static str> {
    let section = README.split("\n## Five commands\n").nth(1).unwrap();
    let console = section.split("```console\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    console.lines().map(|line| line.strip_prefix("# ").unwrap()).collect()
}

/// Runs `ratelimit suggest` beside traffic, ends it by Ctrl-C, and returns the command that it prints.
fn suggested(sandbox: &Sandbox, shell: &Shell<'_>, line: &str) -> String {
    let mut command = shell.command(&format!("exec {line}"));
    command.stdout(Stdio::piped());
    let mut suggest = sandbox.start(command);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        Flood::of(Frame::udp([10, 9, 1, 0], 9)).sources(19).send(sandbox, 19);
        Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(sandbox, 500);
    }
    suggest.signal(Signal::INT);
    let text = String::from_utf8(suggest.wait().stdout).unwrap();
    let all = commands(&text).into_iter().filter(|line| line.contains(" limit set default ")).collect::<Vec<_>>();
    assert_eq!(all.len(), 1, "{text}");
    all[0].clone()
}

/// Sends a flood, and returns how many of its packets were dropped.
fn dropped(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>) -> u64 {
    let all = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
    let before = all();
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(sandbox, 20_000);
    all() - before
}

#[test]
fn the_five_commands_of_readme_and_the_line_of_suggest_drop_a_flood() {
    let [attach, suggest, limit, status, enforce] = five_commands()[..] else { panic!("not five commands") };
    for way in ["README", "suggest", "suggest, then README"] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        let shell = Shell::new(&sandbox, &ratelimit);
        shell.ok(attach);
        let proposed = suggested(&sandbox, &shell, suggest);
        assert!(!proposed.contains("shadow"), "{proposed}");
        if way != "README" {
            shell.ok(&proposed);
        }
        if way != "suggest" {
            shell.ok(limit);
        }
        assert_eq!(dropped(&sandbox, &ratelimit), 0, "{way}");
        shell.ok(status);
        let said = shell.ok(enforce);
        assert!(!said.contains("except"), "{way}: {said}");
        assert!(dropped(&sandbox, &ratelimit) > 1_000, "{way}");
        ratelimit.ok("detach --all");
    }
}

#[test]
fn the_end_of_shadow_names_the_limits_that_stay_in_shadow_with_the_commands_that_enforce_them() {
    for target in ["default", "default --service udp/9", "10.9.0.66", "10.9.0.0/24 --service udp", "10.9.0.66 --for 1h"]
    {
        for end in ["set --shadow off", "attach eth0 --shadow=off", "set --shadow off --interface eth0"] {
            let sandbox = Sandbox::new();
            let ratelimit = Ratelimit::new(&sandbox);
            let shell = Shell::new(&sandbox, &ratelimit);
            ratelimit.ok("attach eth0 --shadow");
            ratelimit.ok(&format!("limit set {target} --packets 100/s --over-limit shadow"));
            ratelimit.ok("limit set 10.99.0.0/16 --packets 100/s");
            let said = ratelimit.ok(end);
            assert_eq!(dropped(&sandbox, &ratelimit), 0, "{target}: {end}");
            let all = commands(&said);
            let [command] = &all.iter().filter(|one| one.ends_with("--over-limit drop")).collect::<Vec<_>>()[..] else {
                panic!("{target}: {end}: {said}")
            };
            shell.ok(command);
            assert!(dropped(&sandbox, &ratelimit) > 1_000, "{target}: {end}: {command}");
            assert_eq!(commands(&ratelimit.ok("set --shadow off")), [""; 0]);
            ratelimit.ok("detach --all");
        }
    }
}
