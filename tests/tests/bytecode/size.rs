//! How large the program is, for reviewers to see when it grows.

use std::time::Instant;

use ratelimit_tests::Bytecode;

/// Instructions that the verifier walks through at load: 19,641 on kernel 6.18, and as much to spare, since other kernels walk
/// through other paths more than once.
const MOST_VERIFIED: u32 = 35_000;

/// Instructions that are left after the verifier has removed what is not configured: 923 on kernel 6.18.
const MOST_TRANSLATED: u32 = 1_300;

#[test]
fn the_verifier_walks_through_few_instructions() {
    let begin = Instant::now();
    let bytecode = Bytecode::load();
    let loaded = begin.elapsed().as_millis();
    let info = bytecode.program().info().unwrap();
    let verified = info.verified_instruction_count().unwrap();
    let translated = info.size_translated().unwrap() / 8;
    println!("verified instructions: {verified}; in the kernel: {translated}; loaded in {loaded} ms");
    assert!(verified <= MOST_VERIFIED, "the verifier walked through {verified} instructions");
    assert!(translated <= MOST_TRANSLATED, "the program has {translated} instructions in the kernel");
}
