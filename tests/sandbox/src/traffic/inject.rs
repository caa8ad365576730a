//! Live frames: the kernel creates them, and a program sends them.

use std::io;

use aya::{
    TestRun as _, TestRunAttrs, TestRunOptions,
    programs::{ProgramError, Xdp},
};
use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};

/// Packets that the kernel creates at a time. A veth ring holds four batches.
const BATCH: u32 = 64;

/// Has the kernel run the program on `packets` live frames, or fewer if a signal arrives.
pub(super) fn inject(program: &Xdp, frame: &[u8], context: &[u8], packets: u32) {
    let mut options = TestRunOptions::new();
    options.data_in = Some(frame);
    options.ctx_in = Some(context);
    options.repeat = packets;
    options.attrs = TestRunAttrs::new().xdp_live_frames(BATCH);
    match program.test_run(options) {
        Err(ProgramError::SyscallError(error)) if error.io_error.kind() == io::ErrorKind::Interrupted => {}
        result => {
            result.expect("the kernel refuses to send");
        }
    }
}

/// Returns the `struct xdp_md` of a frame of `length` bytes from this link.
pub(super) fn context(length: u32, link: &str) -> [u8; 24] {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("cannot open a socket");
    let link = name_to_index(socket, link).expect("the peer has no link");
    let mut context = [0; 24];
    // The fields are data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
    context[4..8].copy_from_slice(&length.to_ne_bytes());
    context[12..16].copy_from_slice(&link.to_ne_bytes());
    context
}
