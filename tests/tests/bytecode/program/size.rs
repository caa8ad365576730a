//! Size of the program, which shows reviewers when it grows.

use std::time::Instant;

use ratelimit_dataplane::program::loader::{LEARNED, Settings};
use ratelimit_tests::Bytecode;

/// Maximum size of a program. It exceeds the values of kernel 6.18, since other verifiers walk some paths more often.
struct Most {
    /// Instructions that the verifier walks at load.
    verified: u32,
    /// Instructions that remain after the verifier has removed disabled features.
    translated: u32,
}

/// Loads a program, prints its size, and asserts the maximum.
#[track_caller]
fn measure(name: &str, settings: Settings, most: &Most) {
    let begin = Instant::now();
    let bytecode = Bytecode::with(settings);
    let loaded = begin.elapsed().as_millis();
    let info = bytecode.program().info().unwrap();
    let verified = info.verified_instruction_count().unwrap();
    let translated = info.size_translated().unwrap() / 8;
    println!("{name}: verified instructions: {verified}; in the kernel: {translated}; loaded in {loaded} ms");
    assert!(verified <= most.verified, "the verifier walked {verified} instructions");
    assert!(translated <= most.translated, "the program has {translated} instructions in the kernel");
}

/// The values on kernel 6.18 are 79,300 and 8,530. Those on kernel 6.1 are 222,600 and 9,170: its verifier walked 106,000
/// to 223,000 instructions, depending on LLVM's layout. About 480 of them parse frames whose headers are not in the first
/// buffer, and 1,900 look for own connections. Other packets do not reach them.
#[test]
fn the_default_program_stays_within_its_size_limit() {
    measure("default", Settings::default(), &Most { verified: 250_000, translated: 9_500 });
}

/// The values on kernel 6.18 are 40,000 to 70,000, depending on LLVM's layout, and 4,800. Kernel 6.1 keeps unused
/// functions, and has 85,000 and 7,060.
#[test]
fn the_program_without_cells_is_small() {
    measure(
        "front off",
        Settings { cells: 0, sample: false, ..Settings::default() },
        &Most { verified: 120_000, translated: 7_300 },
    );
}

/// The values on kernel 6.18 are 439,000 and 22,680. The kernel's maximum is a million. About 500 instructions are for
/// the bursts that a fleet divides, 1,500 for proofs of addresses, 190 for the learned rate, 200 for the second filter of
/// rules, and 170 for what the host spares.
#[test]
fn the_program_with_every_feature_stays_within_the_verifier_limit() {
    measure("everything", everything(), &Most { verified: 500_000, translated: 22_900 });
    let moving = Settings { moving: true, old_cells: 1 << 10, ..everything() };
    measure("everything, while maps get other sizes", moving, &Most { verified: 600_000, translated: 23_600 });
}

/// Kernels before 5.18 load this program. The oldest verifier that can be had is that of 6.1.
#[test]
fn the_program_for_one_buffer_stays_within_the_same_limits() {
    let linear = |settings| Settings { frags: false, raw_ip: true, ..settings };
    measure("default, one buffer", linear(Settings::default()), &Most { verified: 150_000, translated: 9_500 });
    measure("everything, one buffer", linear(everything()), &Most { verified: 500_000, translated: 22_000 });
}

fn everything() -> Settings {
    Settings {
        services: true,
        parents: true,
        lanes: true,
        pass_malformed: true,
        unknown: LEARNED,
        prove_tcp: true,
        reject: true,
        windows: true,
        logs: true,
        soft: true,
        elastic: true,
        actions: true,
        bytes: true,
        costs: true,
        bans: true,
        interfaces: true,
        lists: true,
        leases: true,
        divide: true,
        ..Settings::default()
    }
}
