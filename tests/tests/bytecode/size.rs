//! How large the program is, for reviewers to see when it grows.

use std::time::Instant;

use ratelimit::dataplane::program::loader::Settings;
use ratelimit_tests::Bytecode;

/// What a program may come to: some more than on kernel 6.18, since other kernels walk through other paths more than once.
struct Most {
    /// Instructions that the verifier walks through at load.
    verified: u32,
    /// Instructions that are left after the verifier has removed what is not configured.
    translated: u32,
}

/// Loads a program, prints what it comes to, and holds it against the most.
#[track_caller]
fn measure(name: &str, settings: Settings, most: &Most) {
    let begin = Instant::now();
    let bytecode = Bytecode::with(settings);
    let loaded = begin.elapsed().as_millis();
    let info = bytecode.program().info().unwrap();
    let verified = info.verified_instruction_count().unwrap();
    let translated = info.size_translated().unwrap() / 8;
    println!("{name}: verified instructions: {verified}; in the kernel: {translated}; loaded in {loaded} ms");
    assert!(verified <= most.verified, "the verifier walked through {verified} instructions");
    assert!(translated <= most.translated, "the program has {translated} instructions in the kernel");
}

/// 64,000 and 4,800 on kernel 6.18.
#[test]
fn the_program_of_a_new_instance_is_verified_in_time() {
    measure("default", Settings::default(), &Most { verified: 150_000, translated: 5_400 });
}

/// 30,000 to 63,000, by how LLVM lays it out, and 2,300 on kernel 6.18; 6.1 keeps functions that nobody calls.
#[test]
fn a_program_that_looks_at_no_more_than_it_must_is_small() {
    measure(
        "front off",
        Settings { cells: 0, sample: false, ..Settings::default() },
        &Most { verified: 120_000, translated: 4_000 },
    );
}

/// 276,000 and 10,500 on kernel 6.18. The kernel takes a million.
#[test]
fn a_program_with_everything_on_is_verified_in_time() {
    measure("everything", everything(), &Most { verified: 500_000, translated: 11_500 });
    let moving = Settings { moving: true, old_cells: 1 << 10, ..everything() };
    measure("everything, while maps get other sizes", moving, &Most { verified: 600_000, translated: 12_500 });
}

fn everything() -> Settings {
    Settings {
        services: true,
        parents: true,
        pass_malformed: true,
        strangers: 10_000,
        reject: true,
        windows: true,
        logs: true,
        soft: true,
        elastic: true,
        actions: true,
        costs: true,
        interfaces: true,
        ..Settings::default()
    }
}
