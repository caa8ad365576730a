//! Interruption of a system call on another thread.

use std::{
    os::unix::thread::JoinHandleExt as _,
    sync::Once,
    thread::{self, JoinHandle},
    time::Duration,
};

/// Interrupts `thread` repeatedly until it has ended.
pub(crate) fn interrupt(thread: &JoinHandle<()>) {
    static HANDLER: Once = Once::new();
    // SAFETY: the handler does nothing, and this process does not use the signal otherwise.
    HANDLER.call_once(|| unsafe {
        libc::signal(libc::SIGUSR1, nothing as extern "C" fn(libc::c_int) as libc::sighandler_t);
    });
    while !thread.is_finished() {
        // SAFETY: a thread that has not been joined has a valid identifier, even after it has ended.
        unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
        thread::sleep(Duration::from_millis(1));
    }
}

/// The signal interrupts system calls only if it has a handler.
extern "C" fn nothing(_signal: libc::c_int) {}
