//! What the running kernel offers. Its version does not tell, because distributions add features to older kernels. So
//! each feature is tried.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd},
    sync::OnceLock,
};

use aya_obj::generated::{
    BPF_F_XDP_HAS_FRAGS, bpf_cmd, bpf_func_id,
    bpf_func_id::{BPF_FUNC_check_mtu, BPF_FUNC_tcp_check_syncookie, BPF_FUNC_tcp_gen_syncookie},
    bpf_prog_type::BPF_PROG_TYPE_XDP,
};

use crate::{
    Error,
    sys::{bpf::call, host},
};

/// Checks that the kernel can run the program. This process must have the [privileges](host::check) to load one.
///
/// # Errors
///
/// [`Error::Kernel`] if it lacks a feature.
pub fn check() -> Result<(), Error> {
    match load(&COMPARE_AND_EXCHANGE, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(Error::Kernel { found: host::release() }),
        _ => Ok(()),
    }
}

/// Returns whether XDP programs can receive frames of several buffers. None if that cannot be tried now, as without
/// privileges.
#[must_use]
pub fn several_buffers() -> Option<bool> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    if KNOWN.get().is_none() {
        let can = match load(&PASS, BPF_F_XDP_HAS_FRAGS) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => false,
            Err(_) => return None,
        };
        let _ = KNOWN.set(can);
    }
    KNOWN.get().copied()
}

/// Returns the first function that SYN cookies need and XDP programs cannot call. None if that cannot be tried now.
pub fn missing_for_syn_cookies() -> Option<&'static str> {
    let needed = [
        (BPF_FUNC_tcp_check_syncookie, "bpf_tcp_check_syncookie"),
        (BPF_FUNC_tcp_gen_syncookie, "bpf_tcp_gen_syncookie"),
        (BPF_FUNC_check_mtu, "bpf_check_mtu"),
    ];
    needed.into_iter().find(|(function, _)| !is_offered(*function)).map(|(_, name)| name)
}

/// Returns whether XDP programs can call a function. The kernel refuses this call in any case: unknown functions as
/// invalid, others because of their arguments.
fn is_offered(function: bpf_func_id) -> bool {
    let call = instruction(0x85, 0, 0, function as i32);
    let refused = load(&[call, EXIT], 0).err();
    refused.and_then(|error| error.raw_os_error()) != Some(libc::EINVAL)
}

/// One BPF instruction (include/uapi/linux/bpf.h).
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

const fn instruction(code: u8, registers: u8, offset: i16, value: i32) -> Instruction {
    Instruction { code, registers, offset, value }
}

const EXIT: Instruction = instruction(0x95, 0, 0, 0);

/// Returns `XDP_PASS`.
const PASS: [Instruction; 2] = [instruction(0xb7, 0, 0, 2), EXIT];

/// Compares and exchanges a word on its stack.
const COMPARE_AND_EXCHANGE: [Instruction; 6] = [
    instruction(0xb7, 0, 0, 0),
    instruction(0x7b, 0x0a, -8, 0),
    instruction(0xb7, 1, 0, 0),
    instruction(0xdb, 0x1a, -8, 0xf1),
    instruction(0xb7, 0, 0, 2),
    EXIT,
];

/// Part of `union bpf_attr` for loading a program. The generated type has no names for its parts.
#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    program: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// Loads an XDP program, and frees it again.
fn load(program: &[Instruction], flags: u32) -> io::Result<()> {
    let mut attributes = Load {
        kind: BPF_PROG_TYPE_XDP as u32,
        instructions: program.len() as u32,
        program: program.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags,
    };
    // SAFETY: the kernel reads the instructions and the license, which outlive the call.
    let fd = unsafe { call(bpf_cmd::BPF_PROG_LOAD, &mut attributes) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without privileges, the kernel refuses both in the same way.
    #[test]
    fn functions_of_xdp_programs_are_told_from_others() {
        if load(&PASS, 0).is_ok() {
            assert_eq!(missing_for_syn_cookies(), None);
            assert!(!is_offered(bpf_func_id::BPF_FUNC_skb_store_bytes));
        }
    }
}
