//! Traces the system calls of a command, and makes one of them fail or end the command.

use std::{
    env, fs,
    os::unix::process::ExitStatusExt as _,
    process::{self, Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{Sandbox, stdin};

/// The calls by which a daemon waits for work. Some platforms have only one of them.
const IDLE: &str = "?epoll_wait,?epoll_pwait";

/// What happens at a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It returns this error, such as `ENOMEM`, and does nothing.
    Error(&'static str),
    /// This signal arrives, such as `INT`.
    Signal(&'static str),
}

/// One system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: &'static str,
    /// Its number among the calls of this name, from 1.
    pub number: usize,
    /// Its arguments and result, as strace prints them.
    pub text: String,
}

/// A traced run.
#[derive(Debug)]
pub struct Traced {
    /// Its output.
    pub output: Output,
    /// The traced calls, in order.
    pub calls: Vec<Call>,
    /// Whether the fault happened. The command may have ended before.
    pub happened: bool,
}

/// Runs a command with this text on standard input until it ends, and traces its system calls with these names. With a
/// fault, the call with this name and number has it.
///
/// # Panics
///
/// If strace cannot be run, or the fault did not happen.
#[must_use]
pub fn traced(
    sandbox: &Sandbox,
    command: &Command,
    input: &str,
    names: &[&'static str],
    fault: Option<(&'static str, usize, Fault)>,
) -> Traced {
    let traced = try_traced(sandbox, command, input, names, fault);
    assert!(fault.is_none() || traced.happened, "{fault:?} did not happen: {command:?}: {:?}", traced.output);
    traced
}

/// Does the same, and returns whether the fault happened.
///
/// # Panics
///
/// If strace cannot be run.
#[must_use]
pub fn try_traced(
    sandbox: &Sandbox,
    command: &Command,
    input: &str,
    names: &[&'static str],
    fault: Option<(&'static str, usize, Fault)>,
) -> Traced {
    strace(sandbox, command, input, names, fault, false)
}

/// Does the same with a daemon, which is asked to end as soon as it waits for work.
///
/// # Panics
///
/// If strace cannot be run.
#[must_use]
pub fn traced_daemon(
    sandbox: &Sandbox,
    command: &Command,
    names: &[&'static str],
    fault: Option<(&'static str, usize, Fault)>,
) -> Traced {
    strace(sandbox, command, "", names, fault, true)
}

fn strace(
    sandbox: &Sandbox,
    command: &Command,
    input: &str,
    names: &[&'static str],
    fault: Option<(&'static str, usize, Fault)>,
    ends_when_idle: bool,
) -> Traced {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let trace = env::temp_dir().join(format!("ratelimit-trace-{}-{number}", process::id()));
    let mut strace = Command::new("strace");
    // Only traced calls can have faults.
    let traced = if ends_when_idle { [names, &[IDLE]].concat() } else { names.to_vec() };
    strace.args(["-qq", "-s", "200", "-e", &format!("trace={}", traced.join(",")), "-o"]).arg(&trace);
    if let Some((name, number, fault)) = fault {
        let fault = match fault {
            Fault::Error(error) => format!("error={error}"),
            Fault::Signal(signal) => format!("signal={signal}"),
        };
        strace.arg("-e").arg(format!("inject={name}:{fault}:when={number}"));
    }
    if ends_when_idle {
        strace.args(["-e", &format!("inject={IDLE}:signal=TERM:when=1")]);
    }
    strace.arg(command.get_program()).args(command.get_args()).stdin(stdin(input));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    let output = sandbox.output(&mut strace);
    let text = fs::read_to_string(&trace).expect("strace wrote nothing");
    fs::remove_file(&trace).expect("cannot remove a file");
    let happened = match fault {
        None => false,
        Some((.., Fault::Signal("KILL"))) => output.status.signal() == Some(libc::SIGKILL),
        Some((.., Fault::Signal(signal))) => text.contains(&format!("--- SIG{signal} ")),
        Some((.., Fault::Error(_))) => text.contains("(INJECTED)"),
    };
    Traced { output, calls: calls(&text, names), happened }
}

fn calls(text: &str, names: &[&'static str]) -> Vec<Call> {
    let mut numbers = vec![0; names.len()];
    let mut calls = Vec::new();
    for line in text.lines() {
        let called = |name: &&str| line.strip_prefix(*name).is_some_and(|rest| rest.starts_with('('));
        let Some(kind) = names.iter().position(called) else { continue };
        numbers[kind] += 1;
        calls.push(Call { name: names[kind], number: numbers[kind], text: line.to_owned() });
    }
    calls
}
