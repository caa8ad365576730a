//! Packets that are judged just now, and what they have read already.

/// Waits until every packet has been judged whose judgement has begun by now: those after it see all that was written before.
///
/// The program runs within a reader's section of RCU, and this call waits for a grace period. Kernels with `nohz_full` CPUs refuse it: then what takes a
/// packet a microsecond has to be over by the next system call.
pub(crate) fn wait() {
    // SAFETY: the call takes numbers only.
    let _ = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
}
