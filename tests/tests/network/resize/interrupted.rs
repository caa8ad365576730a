//! Interrupted resizes: killed, or failing, at every relevant system call. The old or the new sizes are complete.

use std::{
    fs,
    process::{Command, Output},
};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, Tun, VICTIM_LINK};
use serde_json::{Value, json};

use crate::{
    raw_ip::programs,
    receiver::{FLOODER, PORT, alone, receiving},
};

/// Packets of a source until it waits for an hour.
const BURST: u64 = 10;

/// System calls that create, apply or remove something.
const CALLS: [&str; 5] = ["bpf", "rename", "unlink", "rmdir", "mkdir"];

/// Commands of `bpf` that do so, and those that write. Earlier commands only create unused maps.
const COMMANDS: [&str; 4] = ["BPF_OBJ_PIN", "BPF_LINK_UPDATE", "BPF_MAP_UPDATE_ELEM", LOADS];
const LOADS: &str = "prog_name=\"ratelimit\"";

/// A system call of the resize: its name, and its number among calls of that name.
struct Step {
    call: &'static str,
    number: usize,
    /// Whether the call writes a map entry.
    writes: bool,
}

#[test]
fn an_interrupted_resize_leaves_the_old_or_the_new_sizes() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // A second veth pair, so that the resize can end between two interfaces, and an interface with another program.
    sandbox.ip("link add eth1 type veth peer name far1");
    let _tun = Tun::new(&sandbox, "tun0");
    let settings = "--max-sources 1000 --cells 1024 --sample off --malformed pass --unknown 50k/s";
    ratelimit.ok(&format!("attach {VICTIM_LINK} eth1 --packets 1/h --burst {BURST} {settings}"));
    ratelimit.ok("attach tun0 --mode generic");
    ratelimit.ok("deny add 10.9.0.67 --service udp");
    let ((), received) = receiving(&sandbox, |_| {
        // Alternates between a source over its limit and a denied one.
        let flood = Flood::of(Frame::udp(FLOODER, PORT)).sources(2).start(&sandbox);
        let mut sizes = Sizes::default();
        let (output, steps) = traced(&sandbox, &ratelimit, &sizes.other(), None);
        assert!(output.status.success(), "{output:?}");
        assert!(steps.len() > 30, "only {} steps were found", steps.len());
        for step in &steps {
            // Not each of many writes has to fail and be killed.
            let both = ["signal=KILL", "error=ENOMEM"];
            let injections = if step.writes { &both[step.number % 2..][..1] } else { &both[..] };
            for injected in injections {
                let name = format!("{} {} {injected}", step.call, step.number);
                let injection = format!("inject={}:{injected}:when={}", step.call, step.number);
                let before = state(&ratelimit);
                let (output, _) = traced(&sandbox, &ratelimit, &sizes.other(), Some(&injection));
                let after = state(&ratelimit);
                assert!(after == before || after == sizes.now(), "{name}: {before:?} became {after:?}");
                assert_eq!(programs(&ratelimit, &["eth1", "tun0"]), ["ratelimit", "ratelimit_raw"], "{name}");
                if output.status.code() == Some(2) {
                    let said = String::from_utf8(output.stderr).unwrap();
                    assert!(said.starts_with("ratelimit: ") && said.lines().count() == 1, "{name}: {said}");
                    let expected = if said.contains("is in force") { sizes.now() } else { before.clone() };
                    assert_eq!(after, expected, "{name}: {said}");
                }
                assert_eq!(ratelimit.json("deny list")[0]["source"], "10.9.0.67", "{name}");
            }
        }
        let offered = flood.stop();
        println!("{} steps, killed and failed, during {offered} packets", steps.len());
        assert!(offered > 100_000);
        // Whatever is left, the next complete resize succeeds.
        ratelimit.ok(&format!("attach {VICTIM_LINK} {}", sizes.other()));
        assert_eq!(state(&ratelimit), sizes.now());
    });
    assert_eq!(received.from(FLOODER).count, BURST);
    assert_eq!(received.from([10, 9, 0, 67]).count, 0);
    ratelimit.ok("detach --all");
}

/// Numbers of cells and buckets, interfaces with the pinned program, and the state that must stay.
type State = (u64, u64, usize, [Value; 3]);

fn state(ratelimit: &Ratelimit<'_>) -> State {
    let status = ratelimit.json("status");
    let interfaces = status["interfaces"].as_array().unwrap();
    let program = &interfaces[0]["program_id"];
    let same = interfaces.iter().filter(|interface| interface["program_id"] == *program).count();
    let size = |of: &str, what: &str| status[of][what].as_u64().unwrap();
    let kept = [&status["sample"], &status["malformed"], &status["unknown"]["per_second"]].map(Value::clone);
    (size("front", "cells"), size("sources", "max"), same, kept)
}

/// Alternates between two pairs of sizes.
#[derive(Default)]
struct Sizes(bool);

impl Sizes {
    fn other(&mut self) -> String {
        self.0 = !self.0;
        let (cells, sources, ..) = self.now();
        format!("--cells {cells} --max-sources {sources}")
    }

    fn now(&self) -> State {
        let kept = [json!(false), json!("pass"), json!(50_000)];
        if self.0 { (2_048, 3_000, 2, kept) } else { (1_024, 1_000, 2, kept) }
    }
}

/// Runs an attach under strace, which may inject a fault. Returns its steps if it completes.
fn traced(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, words: &str, injection: Option<&str>) -> (Output, Vec<Step>) {
    let attach = ratelimit.command(&format!("attach {VICTIM_LINK} {words}"));
    let trace = tempfile();
    let mut command = Command::new("strace");
    command.args(["-qq", "-s", "64", "-o", &trace, "-e", &format!("trace={}", CALLS.join(","))]);
    command.args(injection.iter().flat_map(|injection| ["-e", injection]));
    command.arg(attach.get_program()).args(attach.get_args());
    for (name, value) in attach.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let output = sandbox.output(&mut command);
    let text = fs::read_to_string(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    (output, steps(&text))
}

fn steps(trace: &str) -> Vec<Step> {
    let mut numbers = [0; CALLS.len()];
    let (mut steps, mut is_loaded) = (Vec::new(), false);
    for line in trace.lines() {
        let Some(kind) = CALLS.iter().position(|call| line.starts_with(&format!("{call}("))) else { continue };
        numbers[kind] += 1;
        is_loaded |= line.contains(LOADS);
        let is_step = COMMANDS.iter().any(|command| line.contains(command)) && (is_loaded || !line.contains("UPDATE"));
        if kind != 0 || is_step {
            steps.push(Step { call: CALLS[kind], number: numbers[kind], writes: line.contains("UPDATE_ELEM") });
        }
    }
    steps
}

fn tempfile() -> String {
    std::env::temp_dir().join(format!("ratelimit-trace-{}", std::process::id())).display().to_string()
}
