//! Interrupted resizes: killed, or failing, at every relevant system call. The old or the new sizes are complete.

use ratelimit_tests::{Fault, Flood, Frame, Ratelimit, Sandbox, Traced, Tun, VICTIM_LINK, try_traced};
use serde_json::{Value, json};

use crate::{
    raw_ip::programs,
    receiver::{FLOODER, PORT, alone, receiving},
};

/// Packets of a source until it waits for an hour.
const BURST: u64 = 10;

/// Two pairs of sizes: cells and buckets. The first is in force at the beginning.
const SIZES: [(u64, u64); 2] = [(1_024, 1_000), (2_048, 3_000)];

/// System calls that create, apply or remove something.
const CALLS: [&str; 5] = ["bpf", "rename", "unlink", "rmdir", "mkdir"];

/// Commands of `bpf` that do so, and those that write. Earlier commands only create unused maps.
const COMMANDS: [&str; 4] = ["BPF_OBJ_PIN", "BPF_LINK_UPDATE", "BPF_MAP_UPDATE_ELEM", LOADS];
const LOADS: &str = "prog_name=\"ratelimit\"";

/// A system call of the resize: its name, and its number among calls of that name.
struct Step {
    call: &'static str,
    number: usize,
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
        let first = resize(&sandbox, &ratelimit, None);
        assert!(first.output.status.success(), "{first:?}");
        let steps = steps(&first);
        assert!(steps.len() > 30, "only {} steps were found", steps.len());
        let (mut tried, mut happened) = (0, 0);
        // `cargo xtask crash` tries all faults at every step.
        for (step, fault) in
            steps.iter().step_by(2).zip([Fault::Signal("KILL"), Fault::Error("ENOMEM")].into_iter().cycle())
        {
            let name = format!("{} {} {fault:?}", step.call, step.number);
            let before = state(&ratelimit);
            let requested = with_sizes(other_sizes(&before));
            let run = resize(&sandbox, &ratelimit, Some((step.call, step.number, fault)));
            (tried, happened) = (tried + 1, happened + usize::from(run.happened));
            let Traced { output, .. } = run;
            let after = state(&ratelimit);
            assert!(after == before || after == requested, "{name}: {before:?} became {after:?}");
            assert_eq!(programs(&ratelimit, &["eth1", "tun0"]), ["ratelimit", "ratelimit_raw"], "{name}");
            if output.status.code() == Some(2) {
                let said = String::from_utf8(output.stderr).unwrap();
                assert!(said.starts_with("ratelimit: ") && said.lines().count() == 1, "{name}: {said}");
                let expected = if said.contains("is in force") { requested } else { before };
                assert_eq!(after, expected, "{name}: {said}");
            }
            assert_eq!(ratelimit.json("deny list")[0]["source"], "10.9.0.67", "{name}");
        }
        // Calls of bpf have no fixed numbers, because commands look at programs of other tests too.
        assert!(10 * happened >= 9 * tried, "only {happened} of {tried} faults happened");
        let offered = flood.stop();
        assert!(offered > 100_000);
        // Whatever is left, the next complete resize succeeds.
        let requested = other_sizes(&state(&ratelimit));
        ratelimit.ok(&set(requested));
        assert_eq!(state(&ratelimit), with_sizes(requested));
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

/// Returns the sizes that are not in force. So every run changes something.
fn other_sizes((cells, buckets, ..): &State) -> (u64, u64) {
    SIZES[usize::from((*cells, *buckets) == SIZES[0])]
}

/// Returns the state with these sizes.
fn with_sizes((cells, buckets): (u64, u64)) -> State {
    (cells, buckets, 2, [json!(false), json!("pass"), json!(50_000)])
}

fn set((cells, buckets): (u64, u64)) -> String {
    format!("set --cells {cells} --max-sources {buckets}")
}

/// Changes both sizes, with a fault.
fn resize(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, fault: Option<(&'static str, usize, Fault)>) -> Traced {
    let words = set(other_sizes(&state(ratelimit)));
    try_traced(sandbox, &ratelimit.command(&words), "", &CALLS, fault)
}

fn steps(traced: &Traced) -> Vec<Step> {
    let (mut steps, mut is_loaded) = (Vec::new(), false);
    for call in &traced.calls {
        is_loaded |= call.text.contains(LOADS);
        let is_step = COMMANDS.iter().any(|command| call.text.contains(command));
        if call.name != "bpf" || is_step && (is_loaded || !call.text.contains("UPDATE")) {
            steps.push(Step { call: call.name, number: call.number });
        }
    }
    steps
}
