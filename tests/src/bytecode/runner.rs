//! A program on one thread while rules change on another.

use aya::{TestRun as _, TestRunOptions, programs::Xdp};
use ratelimit::dataplane::{
    rules::{list, spec::Terms},
    tables::open::Tables,
};
use ratelimit_common::rules::rule::COMMAND;

/// What the kernel does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to the network stack.
    Pass,
    /// It is gone.
    Drop,
    /// What it has become goes back to where it came from.
    Reply,
}

/// The program alone.
#[derive(Clone, Copy)]
pub struct Runner<'a>(pub(crate) &'a Xdp);

impl Runner<'_> {
    /// Runs the same packet `times` times; the verdict is that of the last.
    ///
    /// # Panics
    ///
    /// Where the kernel refuses to run it.
    #[must_use]
    pub fn repeat(&self, frame: &[u8], times: u32) -> Verdict {
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.repeat = times;
        let result = self.0.test_run(options).expect("cannot run the program");
        verdict(result.return_value)
    }

    /// Runs one packet, and returns what it has become as well.
    ///
    /// # Panics
    ///
    /// Where the kernel refuses to run it.
    #[must_use]
    pub fn exchange(&self, frame: &[u8]) -> (Verdict, Vec<u8>) {
        // More room than an answer takes.
        let mut out = vec![0; frame.len() + 256];
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut out);
        let result = self.0.test_run(options).expect("cannot run the program");
        out.truncate(result.data_size_out as usize);
        (verdict(result.return_value), out)
    }
}

fn verdict(returned: u32) -> Verdict {
    match returned {
        1 => Verdict::Drop,
        2 => Verdict::Pass,
        3 => Verdict::Reply,
        other => panic!("the program returned {other}, which is no verdict of its"),
    }
}

/// As [`crate::Bytecode::set`].
///
/// # Panics
///
/// If there is no such target, or no room.
pub fn set_rule(tables: &mut Tables, target: &str, terms: impl Into<Terms>) {
    let target = target.parse().expect("no target");
    list::set(tables, target, &terms.into(), None, COMMAND).expect("cannot set a rule");
}

/// As [`crate::Bytecode::delete`].
///
/// # Panics
///
/// If there is no such target.
pub fn delete_rule(tables: &mut Tables, target: &str) {
    list::delete(tables, target.parse().expect("no target")).expect("cannot delete a rule");
}
