//! A machine with many CPUs for tests on the host. It runs one access to a shared word at a time, and a test chooses
//! whose access comes next.
//!
//! Each CPU is a thread that stops before every access. So a test can build any interleaving of the real code, and
//! builds the same one each time.

pub(crate) mod own;

use core::cell::RefCell;
use std::{
    boxed::Box,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    vec::Vec,
};

/// What a CPU does when it runs next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// It begins with a packet.
    Packet,
    /// It reads a word.
    Load,
    /// It writes a word, by compare-and-exchange or by a store.
    Write,
    /// It adds to a word, which always succeeds.
    Add,
    /// Nothing: it has decided all its packets.
    Done,
}

/// Chooses the number of the next CPU, which must not be [`Stop::Done`].
pub(crate) type Choose = Box<dyn FnMut(&[Stop]) -> usize + Send>;

struct State {
    stops: Vec<Stop>,
    turn: Option<usize>,
    has_failed: bool,
    choose: Choose,
}

struct Machine {
    state: Mutex<State>,
    wake: Vec<Condvar>,
}

std::thread_local! {
    static CPU: RefCell<Option<(Arc<Machine>, usize)>> = const { RefCell::new(None) };
}

impl Machine {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("another CPU has failed")
    }

    /// Hands the turn to the next CPU, and waits for the own one.
    fn stop(&self, cpu: usize, stop: Stop) {
        let mut state = self.lock();
        state.stops[cpu] = stop;
        if state.stops.iter().any(|stop| *stop != Stop::Done) {
            let State { stops, turn, choose, .. } = &mut *state;
            let next = choose(stops);
            assert_ne!(stops[next], Stop::Done, "the schedule chose a CPU that is done");
            *turn = Some(next);
            self.wake[next].notify_one();
        }
        if stop != Stop::Done {
            self.wait(state, cpu);
        }
    }

    fn wait(&self, mut state: MutexGuard<'_, State>, cpu: usize) {
        while state.turn != Some(cpu) {
            state = self.wake[cpu].wait(state).expect("another CPU has failed");
            assert!(!state.has_failed, "another CPU has failed");
        }
    }
}

/// Wakes all CPUs if this one fails, so that the test ends.
struct Alarm<'a>(&'a Machine);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.state.lock().unwrap_or_else(PoisonError::into_inner).has_failed = true;
            self.0.wake.iter().for_each(Condvar::notify_one);
        }
    }
}

/// Stops before an access to a word, if this thread is a CPU of a machine.
pub(crate) fn stop<T>(word: *const T, stop: Stop) {
    if own::contains(word.addr()) {
        return;
    }
    let cpu = CPU.with(|cpu| cpu.borrow().clone());
    if let Some((machine, number)) = cpu {
        machine.stop(number, stop);
    }
}

/// Runs `cpus` CPUs, each of which decides `packets` packets. `decide` is called with the number of the CPU.
pub(crate) fn run(cpus: usize, packets: usize, choose: Choose, decide: impl Fn(usize) + Sync) {
    let state = State { stops: std::vec![Stop::Packet; cpus], turn: None, has_failed: false, choose };
    let wake = (0..cpus).map(|_| Condvar::new()).collect();
    let machine = Arc::new(Machine { state: Mutex::new(state), wake });
    thread::scope(|scope| {
        let run_cpu = |number: usize| {
            let (machine, decide) = (Arc::clone(&machine), &decide);
            scope.spawn(move || {
                let _alarm = Alarm(&machine);
                CPU.with(|cpu| cpu.replace(Some((Arc::clone(&machine), number))));
                machine.wait(machine.lock(), number);
                for packet in 0..packets {
                    if packet != 0 {
                        machine.stop(number, Stop::Packet);
                    }
                    decide(number);
                }
                machine.stop(number, Stop::Done);
            })
        };
        let threads: Vec<_> = (0..cpus).map(run_cpu).collect();
        let mut state = machine.lock();
        let State { stops, turn, choose, .. } = &mut *state;
        let first = choose(stops);
        *turn = Some(first);
        machine.wake[first].notify_one();
        drop(state);
        for thread in threads {
            thread.join().expect("a CPU has failed");
        }
    });
}
