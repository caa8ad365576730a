//! What the program makes of a frame is what an independent parser makes of it, but for the differences that are written down.

use ratelimit_tests::{
    differential::{Differential, on_host},
    disagreement::expected,
    generate::Generator,
    reference::reference,
};

const FRAMES: u64 = 200_000;

#[test]
fn the_bytecode_and_the_host_build_say_of_every_frame_what_etherparse_says() {
    let mut differential = Differential::new();
    let mut generator = Generator::new(1);
    for _ in 0..FRAMES {
        let (frame, kinds) = generator.make();
        differential.compare(frame, kinds).unwrap_or_else(|mismatch| panic!("{mismatch}"));
    }
    differential.finish();
    let tally = &differential.tally;
    println!("{tally}");
    assert!(tally.too_short < FRAMES / 50, "many frames are not run");
    assert!(tally.agreed > FRAMES * 3 / 4, "hardly any frame is undisputed");
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

/// More frames than the kernel could run in the time.
#[test]
fn the_host_build_says_of_every_frame_what_etherparse_says() {
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
