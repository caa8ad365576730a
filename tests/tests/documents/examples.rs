//! Commands behind a prompt, run page by page from top to bottom on a machine with one interface, `eth0`.

use std::{
    env,
    ffi::OsString,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use ratelimit_tests::{Folder, Ratelimit, Sandbox};
use rustix::process::Signal;
use xtask::documents::{
    console::{Line, lines},
    page::Page,
};

use crate::{assert_none, pages, root};

/// Programs that a test must not run: they build, install, or ask other machines.
const NOT_RUN: [&str; 21] = [
    "ansible-playbook",
    "apt-get",
    "cargo",
    "cscli",
    "curl",
    "docker",
    "dpkg",
    "editor",
    "ethtool",
    "fail2ban-client",
    "git",
    "groupadd",
    "install",
    "journalctl",
    "kubectl",
    "rm",
    "systemctl",
    "tcpdump",
    "rustup",
    "useradd",
    "userdel",
];

/// Commands that `sh` blocks may have besides: they need what the programs above have set up.
const NOT_RUN_IN_SCRIPTS: [&[&str]; 7] = [
    &["ratelimit", "run"],
    &["ratelimit", "reload"],
    &["ratelimit", "check"],
    &["ratelimit", "metrics"],
    &["ratelimit", "detach"],
    &["ratelimit", "completions"],
    &["ratelimit", "replay"],
];

/// Commands that end at Ctrl-C, and not soon without it.
const ENDLESS: [&[&str]; 2] = [&["ratelimit", "events"], &["ratelimit", "suggest"]];
/// Time until Ctrl-C.
const UNTIL_INTERRUPT: Duration = Duration::from_secs(1);

/// Commands whose exit status may be 1: they report problems or traffic of the machine. A test machine has problems and
/// no traffic.
const MAY_ANSWER_NO: [&[&str]; 2] = [&["ratelimit", "doctor"], &["ratelimit", "suggest"]];

#[test]
fn the_examples_of_every_page_run() {
    let pages = pages();
    let findings = thread::scope(|scope| {
        let threads: Vec<_> = pages.iter().map(|page| scope.spawn(|| run(page))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_none(&findings);
}

#[test]
fn every_command_that_can_run_here_stands_behind_a_prompt() {
    let mut findings = Vec::new();
    for page in pages() {
        for line in lines(&page).iter().filter(|line| !line.has_prompt) {
            let is_excused = |command: &[String]| starts(command, &NOT_RUN_IN_SCRIPTS) || is_not_run(command);
            if !line.commands().iter().any(|command| is_excused(command)) && !line.commands().is_empty() {
                let advice = "show it in a console block, or add its program to NOT_RUN of this test";
                findings.push(format!("{}:{}: `{}` is never run: {advice}", page.name, line.line, line.text));
            }
        }
    }
    assert_none(&findings);
}

/// Runs the examples of a page, and returns what goes wrong.
fn run(page: &Page) -> Vec<String> {
    let examples: Vec<_> = lines(page)
        .into_iter()
        .filter(|line| line.has_prompt && !line.commands().iter().any(|command| is_not_run(command)))
        .collect();
    if examples.is_empty() {
        return Vec::new();
    }
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let programs = programs(&ratelimit);
    let folder = programs.file().with_file_name("");
    let mut findings = Vec::new();
    for line in examples {
        let most = i32::from(line.commands().iter().any(|command| starts(command, &MAY_ANSWER_NO)));
        let problem = match status(&sandbox, &line, &folder) {
            Ok((status, _)) if status <= most => continue,
            Ok((status, text)) => format!("exit status {status}: {text}"),
            Err(problem) => problem,
        };
        findings.push(format!("{}:{}: `{}`: {problem}", page.name, line.line, line.text));
    }
    let last = ratelimit.run("detach --all");
    if last.status == 2 {
        findings.push(format!("{}: `ratelimit detach --all` after the examples: {}", page.name, last.stderr));
    }
    findings
}

/// Returns a folder with the product alone.
pub(crate) fn programs(ratelimit: &Ratelimit<'_>) -> Folder {
    let programs = Folder::new();
    symlink(ratelimit.command("").get_program(), programs.file().with_file_name("ratelimit")).unwrap();
    programs
}

/// Runs one line, and returns its exit status and messages.
pub(crate) fn status(sandbox: &Sandbox, line: &Line, folder: &Path) -> Result<(i32, String), String> {
    let is_endless = line.commands().iter().any(|command| starts(command, &ENDLESS));
    // An endless command replaces the shell, so that the signal arrives at it.
    let text = if is_endless { format!("exec {}", line.text) } else { line.text.clone() };
    let mut command = Command::new("sh");
    command.args(["-c", &text]).current_dir(root()).env("PATH", path(folder)).env_remove("SSH_CONNECTION");
    command.stdin(Stdio::null());
    let output = if is_endless {
        let mut process = sandbox.start(command);
        thread::sleep(UNTIL_INTERRUPT);
        process.signal(Signal::INT);
        process.wait()
    } else {
        sandbox.output(&mut command)
    };
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned();
    output.status.code().map(|status| (status, text)).ok_or_else(|| output.status.to_string())
}

/// The folder of the product, and then where programs are found otherwise.
fn path(folder: &Path) -> OsString {
    let others = env::var_os("PATH").unwrap_or_default();
    env::join_paths([folder.to_owned()].into_iter().chain(env::split_paths(&others))).unwrap()
}

fn is_not_run(command: &[String]) -> bool {
    command.first().is_some_and(|program| NOT_RUN.contains(&program.as_str()))
}

/// Whether the command begins with the words of one of these.
fn starts(command: &[String], list: &[&[&str]]) -> bool {
    list.iter().any(|words| command.iter().map(String::as_str).take(words.len()).eq(words.iter().copied()))
}
