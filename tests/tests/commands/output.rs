//! Output of every command.

use std::process::Stdio;

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};

#[test]
fn a_closed_pipe_is_not_an_error() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for words in ["status", "sources", "limit list", "--help"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = ratelimit.command(words);
        command.stdout(writer).stderr(Stdio::piped());
        let output = sandbox.start(command).wait();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{words}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_slow_reader_does_not_block_other_commands() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    // More than the capacity of a pipe.
    Flood::of(Frame::udp([10, 9, 1, 0], 9)).sources(2_000).send(&sandbox, 2_000);
    let mut command = ratelimit.command("sources -n 2000 --json");
    command.stdout(Stdio::piped());
    let mut process = sandbox.start(command);
    let mut first = [0];
    std::io::Read::read_exact(process.child.stdout.as_mut().unwrap(), &mut first).unwrap();
    ratelimit.ok("detach --all");
    let rest = process.wait().stdout;
    assert!(first == *b"[" && rest.ends_with(b"]\n"));
}

#[test]
fn help_lists_every_basic_command() {
    let sandbox = Sandbox::new();
    let help = Ratelimit::new(&sandbox).ok("--help");
    for command in ["attach", "detach", "limit", "allow", "deny", "status", "sources", "--json"] {
        assert!(help.contains(command), "{command}: {help}");
    }
}
