//! Ends a system call that another thread is in.

use std::{
    os::unix::thread::JoinHandleExt as _,
    sync::Once,
    thread::{self, JoinHandle},
    time::Duration,
};

/// Interrupts `thread` again and again until it has ended, which it must do once it is interrupted.
pub(crate) fn interrupt(thread: &JoinHandle<()>) {
    static HANDLER: Once = Once::new();
    // SAFETY: the handler does nothing, and nobody else in this process uses the signal.
    HANDLER.call_once(|| unsafe {
        libc::signal(libc::SIGUSR1, nothing as extern "C" fn(libc::c_int) as libc::sighandler_t);
    });
    while !thread.is_finished() {
        // SAFETY: a thread that has not been joined has a valid identifier, even after it has ended.
        unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
        thread::sleep(Duration::from_millis(1));
    }
}

/// That there is a handler at all is what makes the signal interrupt.
extern "C" fn nothing(_signal: libc::c_int) {}
