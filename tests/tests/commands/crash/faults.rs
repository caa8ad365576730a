//! The faults: which system calls change something, and what can happen at them.

use ratelimit_tests::{Call, Fault};

/// System calls that can change something.
pub(super) const CALLS: [&str; 6] = ["bpf", "rename", "unlink", "mkdir", "rmdir", "sendto"];

/// Commands of `bpf` that do. The others read, or make what ends with the process.
const COMMANDS: [&str; 8] = [
    "BPF_MAP_UPDATE_ELEM",
    "BPF_MAP_UPDATE_BATCH",
    "BPF_MAP_DELETE_ELEM",
    "BPF_OBJ_PIN",
    "BPF_LINK_CREATE",
    "BPF_LINK_UPDATE",
    "BPF_LINK_DETACH",
    "prog_name=\"ratelimit\"",
];

/// What happens at each of these calls.
pub(super) const FAULTS: [Fault; 3] = [Fault::Signal("KILL"), Fault::Error("ENOMEM"), Fault::Signal("INT")];

/// Returns the calls that change something.
pub(super) fn changes(calls: Vec<Call>) -> Vec<Call> {
    let changes = |call: &Call| match call.name {
        "bpf" => COMMANDS.iter().any(|command| call.text.contains(command)),
        // A daemon also tells itself of signals. Without that, the harness could not end it.
        "sendto" => call.text.contains("nlmsg_"),
        _ => true,
    };
    calls.into_iter().filter(changes).collect()
}
