//! Frames that do not fit into one buffer.

use ratelimit_common::{identity::source::Source, reason::Reason};
use ratelimit_tests::{Bytecode, Frame, kernel_at_least};

/// Whether the kernel has such frames, as in [`kernel_at_least`].
fn has_frags() -> bool {
    let has = kernel_at_least(5, 18);
    if !has {
        println!("skipped: frames of several buffers need Linux 5.18");
    }
    has
}

#[test]
fn all_buffers_of_a_frame_count() {
    if !has_frags() {
        return;
    }
    let bytecode = Bytecode::with(crate::settings());
    let source = [10, 0, 0, 1];
    let mut bytes = 0;
    for length in [60, 255, 256, 257, 1_514, 3_000, 4_000, 9_014, 60_000] {
        bytecode.send(&Frame::udp(source, 9).length(length).bytes());
        bytes += length as u64;
        assert_eq!(bytecode.bucket(Source::v4(source)).unwrap().passed_bytes, bytes, "{length}");
    }
}

/// What lies behind the packet is sent all the same, and a limit of bytes is about that.
#[test]
fn padding_in_another_buffer_counts() {
    if !has_frags() {
        return;
    }
    let bytecode = Bytecode::with(crate::settings());
    let source = [10, 0, 0, 1];
    let frame = [Frame::udp(source, 9).bytes(), vec![0; 9_000]].concat();
    assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
    assert_eq!(bytecode.bucket(Source::v4(source)).unwrap().passed_bytes, frame.len() as u64);
}

#[test]
fn a_jumbo_frame_that_is_cut_short_is_truncated() {
    if !has_frags() {
        return;
    }
    let bytecode = Bytecode::with(crate::settings());
    let frame = Frame::udp([10, 0, 0, 1], 9).length(9_014).bytes();
    assert_eq!(bytecode.reason(&frame[..9_013]), Reason::Truncated);
    assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
}
