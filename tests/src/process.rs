//! Programs that run inside a sandbox, and never outlive the test.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Output},
    sync::{
        Arc,
        mpsc::{self, Sender},
    },
    thread,
};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::Namespace;

/// A program that runs in the background. Killed on drop, and by the kernel if the test is killed.
#[derive(Debug)]
pub struct Process {
    /// Its handle.
    pub child: Child,
    /// The kernel kills the program when the thread that started it ends: that one waits until this is dropped.
    _starter: Sender<()>,
}

impl Process {
    pub(crate) fn start(namespace: &Arc<Namespace>, mut command: Command) -> Self {
        let namespace = Arc::clone(namespace);
        let (starter, dropped) = mpsc::channel();
        let (started, child) = mpsc::channel();
        thread::spawn(move || {
            namespace.enter();
            let _ = started.send(bound_to_thread(&mut command).spawn());
            let _ = dropped.recv();
        });
        let child = child.recv().expect("cannot enter the namespace").expect("cannot start the program");
        Self { child, _starter: starter }
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// If it has been waited for.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("cannot send a signal");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `command` inside until it ends.
///
/// # Panics
///
/// If it cannot be started.
pub(crate) fn output(namespace: &Namespace, command: &mut Command) -> Output {
    let output = namespace.run(|| bound_to_thread(command).output());
    output.unwrap_or_else(|error| panic!("cannot run {:?}: {error}", command.get_program()))
}

/// Has the kernel kill the program when the thread that starts it ends.
fn bound_to_thread(command: &mut Command) -> &mut Command {
    let die_too = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(die_too) }
}
