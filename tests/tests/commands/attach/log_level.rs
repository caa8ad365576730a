//! `attach --log-level`.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::Stdio,
};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use rustix::process::Signal;

#[test]
fn kernel_log_lines_are_printed_until_interrupted_and_the_limit_stays() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let mut command = ratelimit.command("attach eth0 --packets 1/h --burst 1 --log-level debug");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = sandbox.start(command);
    let mut printed = BufReader::new(process.child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("default: ") {
        line.clear();
        assert_ne!(printed.read_line(&mut line).unwrap(), 0, "the command ended before it attached");
    }
    let logging = ratelimit.json("status")["interfaces"][0]["program_id"].clone();
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 3);
    let mut messages = BufReader::new(process.child.stderr.take().unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        messages.read_line(&mut line).unwrap();
        assert_eq!(line, "debug dropped 60 bytes: over-packets\n");
    }
    process.signal(Signal::INT);
    assert!(process.child.wait().unwrap().success());
    let mut rest = String::new();
    messages.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    // The program without log messages is in place again.
    let silent = ratelimit.json("status")["interfaces"][0]["program_id"].clone();
    assert_ne!(silent, logging);
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 3);
    assert_eq!(ratelimit.json("status")["reasons"]["over-packets"]["packets"], 5);
    ratelimit.ok("detach --all");
}
