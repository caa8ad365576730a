//! The program and an independent parser agree about every frame, except for documented differences.

use ratelimit_tests::{
    differential::{Differential, on_host},
    expected::expected,
    generate::Generator,
    reference::reference,
};

const FRAMES: u64 = 200_000;

#[test]
fn the_bytecode_and_the_host_build_agree_with_etherparse() {
    let mut differential = Differential::new();
    let mut generator = Generator::new(1);
    for _ in 0..FRAMES {
        let (frame, kinds) = generator.make();
        differential.compare(frame, kinds).unwrap_or_else(|mismatch| panic!("{mismatch}"));
    }
    differential.finish();
    let tally = &differential.tally;
    println!("{tally}");
    assert!(tally.too_short < FRAMES / 50, "too many frames are too short");
    assert!(tally.agreed > FRAMES * 3 / 4, "too few frames without disagreement");
    for (kind, count) in tally.kinds() {
        assert!(count > 500, "{count} frames with {kind:?}");
    }
    for (opinion, count) in tally.opinions() {
        assert!(count > 500, "{count} frames of the opinion `{opinion}`");
    }
    for (disagreement, count) in tally.disagreements() {
        assert!(count > 0, "{disagreement:?} does not occur");
    }
}

/// The host build is fast enough for more frames than the kernel.
#[test]
fn the_host_build_agrees_with_etherparse_on_a_million_frames() {
    let mut generator = Generator::new(2);
    for _ in 0..1_000_000 {
        let (frame, _) = generator.make();
        let (theirs, hex) = (reference(frame), || frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let expected = expected(frame, theirs);
        on_host(frame, &expected.opinion).unwrap_or_else(|said| {
            panic!("{}\netherparse: {theirs:?}\nexpected: {:?}\n{said}", hex(), expected.opinion)
        });
    }
}
