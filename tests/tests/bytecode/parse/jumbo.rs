//! Frames of several buffers.

use ratelimit_common::{identity::source::Source, reason::Reason};
use ratelimit_tests::{Bytecode, Frame, kernel_at_least};

use crate::front::{Front, with_and_without_cells};

/// Returns whether the kernel supports such frames, by [`kernel_at_least`].
fn has_frags() -> bool {
    let has = kernel_at_least(5, 18);
    if !has {
        println!("skipped: frames of several buffers need Linux 5.18");
    }
    has
}

fn bytes_of_all_buffers_are_counted(front: Front) {
    if !has_frags() {
        return;
    }
    let bytecode = Bytecode::with(front.settings());
    let source = [10, 0, 0, 1];
    let mut bytes = 0;
    for length in [60, 255, 256, 257, 1_514, 3_000, 4_000, 9_014, 60_000] {
        bytecode.send(&Frame::udp(source, 9).length(length).bytes());
        bytes += length as u64;
        assert_eq!(bytecode.bucket(Source::v4(source)).unwrap().passed_bytes, bytes, "{length}");
    }
}

/// Padding is sent like any byte, and byte limits count it.
fn padding_in_another_buffer_is_counted(front: Front) {
    if !has_frags() {
        return;
    }
    let bytecode = Bytecode::with(front.settings());
    let source = [10, 0, 0, 1];
    let frame = [Frame::udp(source, 9).bytes(), vec![0; 9_000]].concat();
    assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
    assert_eq!(bytecode.bucket(Source::v4(source)).unwrap().passed_bytes, frame.len() as u64);
}

fn a_jumbo_frame_cut_by_a_byte_is_truncated(front: Front) {
    if !has_frags() {
        return;
    }
    let bytecode = Bytecode::with(front.settings());
    let frame = Frame::udp([10, 0, 0, 1], 9).length(9_014).bytes();
    assert_eq!(bytecode.reason(&frame[..9_013]), Reason::Truncated);
    assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
}

with_and_without_cells!(
    bytes_of_all_buffers_are_counted,
    padding_in_another_buffer_is_counted,
    a_jumbo_frame_cut_by_a_byte_is_truncated,
);
