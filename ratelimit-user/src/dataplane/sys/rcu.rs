//! Waits for packets that the program is processing.

/// Waits until the program has processed every packet that it has begun. Later packets see all earlier writes.
///
/// The program runs in an RCU read section, and this call waits for a grace period. Kernels with `nohz_full` CPUs
/// refuse it. Then the time until the next system call has to suffice, since a packet takes about a microsecond.
pub(crate) fn wait() {
    // SAFETY: the call takes numbers only.
    let _ = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
}
