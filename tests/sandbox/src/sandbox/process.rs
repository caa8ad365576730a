//! Programs that run inside a sandbox and never outlive the test.

use std::{
    io::{self, Read},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Output},
    sync::{
        Arc, Once,
        mpsc::{self, Sender},
    },
    thread,
};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::Namespace;

/// A program in the background. Killed on drop, and by the kernel if the test is killed.
#[derive(Debug)]
pub struct Process {
    /// The child process.
    pub child: Child,
    /// The kernel kills the program when the thread that started it ends. That thread waits until this is dropped.
    _starter: Sender<()>,
}

impl Process {
    /// Starts a program in a namespace.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn start(namespace: &Arc<Namespace>, mut command: Command) -> Self {
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

    /// Waits until the program exits, and returns its exit status and the output of its pipes.
    ///
    /// # Panics
    ///
    /// If its pipes cannot be read.
    #[must_use]
    pub fn wait(&mut self) -> Output {
        let mut output = Output { status: ExitStatus::default(), stdout: Vec::new(), stderr: Vec::new() };
        let pipes: [(Option<&mut dyn Read>, &mut Vec<u8>); 2] = [
            (self.child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read), &mut output.stdout),
            (self.child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read), &mut output.stderr),
        ];
        for (pipe, text) in pipes {
            pipe.map(|pipe| pipe.read_to_end(text)).transpose().expect("cannot read a pipe");
        }
        output.status = self.child.wait().expect("cannot wait for the program");
        output
    }

    /// Sends a signal to the program.
    ///
    /// # Panics
    ///
    /// After [`Self::wait`].
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

/// Runs a program in a namespace until it exits.
///
/// # Panics
///
/// If it cannot be started.
pub fn output(namespace: &Namespace, command: &mut Command) -> Output {
    let output = namespace.run(|| bound_to_thread(command).output());
    output.unwrap_or_else(|error| panic!("cannot run {:?}: {error}", command.get_program()))
}

/// Has the kernel kill the program when the thread that starts it ends.
fn bound_to_thread(command: &mut Command) -> &mut Command {
    LITTLE_TO_COPY.call_once(return_freed_memory);
    let die_too = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(die_too) }
}

static LITTLE_TO_COPY: Once = Once::new();

/// Has the allocator return freed memory. A program with `pre_exec` starts as a copy of this process, whose page tables the
/// kernel copies too. With 200 MB of freed memory, these copies took a fifth of the time of all commands.
fn return_freed_memory() {
    // SAFETY: the calls set parameters of the allocator only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 * 1024);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 * 1024);
    }
}
