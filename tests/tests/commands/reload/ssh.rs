//! SSH sessions during a reload: of its requester, and of systemd-logind.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{fs::symlink, net::UnixStream},
    path::Path,
    process::{Command, Stdio},
};

use ratelimit_tests::{Daemon, Folder, Output, Ratelimit, Sandbox};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// Writes the files that logind writes about a session.
pub(crate) fn log_in(sandbox: &Sandbox, id: &str, host: &str, state: &str) {
    let text = format!("# Private.\nUID=0\nSTATE={state}\nREMOTE=1\nREMOTE_HOST={host}\nSERVICE=sshd\n");
    sandbox.victim(|| {
        fs::create_dir_all("/run/systemd/sessions").unwrap();
        fs::write(Path::new("/run/systemd/sessions").join(id), text).unwrap();
    });
}

fn through_ssh(ratelimit: &Ratelimit<'_>, words: &str, peer: &str) -> Output {
    let mut command = ratelimit.command(words);
    ratelimit.output(command.env("SSH_CONNECTION", format!("{peer} 50000 10.9.0.1 22")))
}

/// Returns a file that denies these sources.
pub(crate) fn denying(source: &str) -> String {
    format!("interfaces = [\"eth0\"]\n[[rule]]\nsource = \"{source}\"\npolicy = \"deny\"\n")
}

#[test]
fn logind_sessions_are_allowed_at_the_start_and_blocked_only_with_force() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n");
    log_in(&sandbox, "1", "10.9.0.5", "active");
    log_in(&sandbox, "2", "host.example", "active");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(line.ends_with("; 10.9.0.5 allowed, because it is the address of an SSH session"), "{line}");
    let allowed = json!([{"source": "10.9.0.5", "service": "any", "expires_in_seconds": null, "covers": null, "covered_by": null, "origin": "ssh", "comment": null}]);
    assert_eq!(ratelimit.json("allow list"), allowed);

    // Another session without a rule, for every way to reload.
    log_in(&sandbox, "3", "10.9.0.6", "online");
    let refused = "ratelimit: nothing was changed: an SSH session comes from 10.9.0.6, which would be denied by the rule for 10.9.0.0/16: `ratelimit reload --force` applies it anyway; `allow = [\"10.9.0.6\"]` in the file keeps the session";
    folder.write(&denying("10.9.0.0/16"));
    assert_eq!(daemon.line(), refused);
    daemon.process.signal(Signal::HUP);
    assert_eq!(daemon.line(), refused);
    assert_eq!(ratelimit.fails("reload"), refused);
    assert_eq!(daemon.line(), refused);
    assert_eq!(ratelimit.json("deny list"), json!([]));
    // A session that ends does not block a reload.
    log_in(&sandbox, "3", "10.9.0.6", "closing");
    ratelimit.ok("reload");
    daemon.line();
    assert_eq!(ratelimit.json("deny list")[0]["source"], "10.9.0.0/16");
    // Commands protect the same sessions.
    assert!(
        ratelimit.fails("allow del 10.9.0.5").contains("10.9.0.5, which would be denied by the rule for 10.9.0.0/16")
    );
    ratelimit.ok("allow del 10.9.0.5 --force");
    log_in(&sandbox, "3", "10.8.0.6", "active");
    folder.write(&denying("10.8.0.6"));
    assert!(daemon.line().contains("10.8.0.6, which would be denied by the rule for 10.8.0.6: "));
    ratelimit.ok("reload --force");
    daemon.line();
    assert_eq!(ratelimit.json("deny list")[0]["source"], "10.8.0.6");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_reload_that_blocks_its_requester_is_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let other = Folder::new();
    other.write("interfaces = [\"eth0\"]\n");
    // Changed through a link, so that the daemon does not notice at once.
    symlink(other.file(), folder.file()).unwrap();
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    other.write(&denying("0.0.0.0/0"));
    let refused = "ratelimit: nothing was changed: an SSH session comes from 10.9.0.7, which would be denied by the rule for 0.0.0.0/0: `ratelimit reload --force` applies it anyway; `allow = [\"10.9.0.7\"]` in the file keeps the session\n";
    let output = through_ssh(&ratelimit, "reload --no-allow-ssh", "10.9.0.7");
    assert_eq!((output.status, output.stderr.as_str()), (2, refused));
    assert_eq!(ratelimit.json("allow list"), json!([]));
    let answer = through_ssh(&ratelimit, "reload", "10.9.0.7").stdout;
    assert!(answer.ends_with("; 10.9.0.7 allowed, because it is the address of an SSH session\n"), "{answer}");
    assert_eq!(ratelimit.json("deny list")[0]["source"], "0.0.0.0/0");
    // A rule of the file for exactly the address of the requester is not overruled.
    other.write("interfaces = [\"eth0\"]\n");
    ratelimit.ok("reload");
    other.write(&denying("10.9.0.9"));
    let output = through_ssh(&ratelimit, "reload", "10.9.0.9");
    assert!(output.stderr.contains("10.9.0.9, which would be denied by the rule for 10.9.0.9"), "{output:?}");
    assert_eq!(through_ssh(&ratelimit, "reload --force", "10.9.0.9").status, 0);
    assert_eq!(ratelimit.json("allow list").as_array().unwrap().len(), 1);

    // The command that causes the end of shadow is refused.
    let ask = |request: &str| {
        let mut answer = String::new();
        let mut stream = sandbox.victim(|| UnixStream::connect("/run/ratelimit/socket").unwrap());
        stream.write_all(request.as_bytes()).unwrap();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    };
    let peer =
        |peer: &str| format!("{{\"reload-by\":{{\"session\":{{\"peer\":{peer:?},\"port\":22}},\"force\":false}}}}\n");
    let unknown = "{\"failed\":\"nothing was changed: the daemon does not know this request: if it is of another version, restart it\"}\n";
    assert_eq!(ask(&peer("10.9.0.7; reboot")), unknown);
    assert_eq!(ask(&peer(&"1".repeat(2_000))), unknown);
    assert!(ask(&peer("::ffff:10.9.0.8")).starts_with("{\"applied\":{\"message\":"));
    daemon.process.signal(Signal::TERM);
    assert!(daemon.process.wait().status.success());
    ratelimit.ok("detach --all");
}

#[test]
fn the_session_of_the_daemon_starter_is_protected_while_its_shell_runs() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n");
    let pid = folder.file().with_extension("pid");
    let mut shell = Command::new("sh");
    let run = format!("run --no-allow-ssh -c {}", folder.file().display());
    let line =
        format!("{} {run} & echo $! > {}; read hangup", ratelimit.command("").get_program().display(), pid.display());
    shell.args(["-c", &line]).env("SSH_CONNECTION", "10.9.0.5 50000 10.9.0.1 22").stdin(Stdio::piped());
    ratelimit.ok("attach eth0");
    let mut daemon = Daemon::by(&sandbox, shell);
    daemon.line();
    folder.write(&denying("10.9.0.5"));
    assert!(daemon.line().contains("10.9.0.5, which would be denied by the rule for 10.9.0.5: "));
    drop(daemon.process.child.stdin.take());
    assert!(daemon.process.wait().status.code().is_some());
    ratelimit.ok("reload");
    assert!(daemon.line().contains("reloaded, rules: 1 set"));
    let pid = Pid::from_raw(fs::read_to_string(pid).unwrap().trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(daemon.line().contains("ended"));
    assert_eq!(daemon.line(), "");
    ratelimit.ok("detach --all");
}

#[test]
fn leaving_shadow_does_not_block_a_session() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --shadow");
    ratelimit.ok("deny add 10.9.0.0/24");
    let line = "ratelimit: this SSH session comes from 10.9.0.5, which would be denied by the rule for 10.9.0.0/24: nothing was changed, --force does it anyway; `ratelimit allow add 10.9.0.5` keeps the session\n";
    let output = through_ssh(&ratelimit, "attach eth0 --shadow=off --no-allow-ssh", "10.9.0.5");
    assert_eq!((output.status, output.stderr.as_str()), (2, line));
    let shadow = || ratelimit.json("status")["shadow"]["everything"].clone();
    assert_eq!(shadow(), true);
    // The same holds if the file ends shadow.
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n[settings]\nshadow = \"off\"\n");
    log_in(&sandbox, "1", "10.9.0.6", "active");
    let line = "ratelimit: an SSH session comes from 10.9.0.6, which would be denied by the rule for 10.9.0.0/24: `ratelimit run --force` applies it anyway; `allow = [\"10.9.0.6\"]` in the file keeps the session";
    assert_eq!(ratelimit.fails(&format!("run -c {}", folder.file().display())), line);
    assert_eq!(shadow(), true);
    assert_eq!(through_ssh(&ratelimit, "attach eth0 --shadow=off --force", "10.9.0.5").status, 0);
    assert_eq!(shadow(), false);
    ratelimit.ok("detach --all");
}
