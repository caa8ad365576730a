//! A program that runs on one thread while rules change on another.

use aya::{TestRun as _, TestRunOptions, programs::Xdp};
use ratelimit_common::rules::rule::COMMAND;
use ratelimit_dataplane::{
    rules::{batch, spec::RuleSpec},
    tables::open::Tables,
};

/// Verdict of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The packet goes to the network stack.
    Pass,
    /// The packet is dropped.
    Drop,
    /// The rewritten packet goes back to its sender.
    Reply,
}

/// The program without its maps.
#[derive(Clone, Copy)]
pub struct Runner<'a>(pub(crate) &'a Xdp);

impl Runner<'_> {
    /// Runs the same packet `times` times and returns the last verdict.
    ///
    /// # Panics
    ///
    /// If the kernel refuses to run it.
    #[must_use]
    pub fn repeat(&self, frame: &[u8], times: u32) -> Verdict {
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.repeat = times;
        let result = self.0.test_run(options).expect("cannot run the program");
        verdict(result.return_value)
    }

    /// Runs one packet whose first buffer ends after `first` bytes (Linux 6.18), and returns its verdict.
    ///
    /// # Panics
    ///
    /// If the kernel refuses to run it.
    #[must_use]
    pub fn split(&self, frame: &[u8], first: usize) -> Verdict {
        // `struct xdp_md` begins with the bounds of the first buffer.
        let context = [0, first as u32, 0, 0, 0, 0].map(u32::to_ne_bytes);
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.ctx_in = Some(context.as_flattened());
        let result = self.0.test_run(options).expect("cannot run the program");
        verdict(result.return_value)
    }

    /// Runs one packet and returns its verdict and output.
    ///
    /// # Panics
    ///
    /// If the kernel refuses to run it.
    #[must_use]
    pub fn exchange(&self, frame: &[u8]) -> (Verdict, Vec<u8>) {
        // More space than a reply needs.
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
        other => panic!("the program returned {other}, which is not one of its verdicts"),
    }
}

/// Sets a rule like [`crate::Bytecode::set`].
///
/// # Panics
///
/// If the target is invalid, or the tables are full.
pub fn set_rule(tables: &mut Tables, target: &str, terms: impl Into<RuleSpec>) {
    let target = target.parse().expect("no target");
    batch::set(tables, target, &terms.into(), None, COMMAND).expect("cannot set a rule");
}

/// Deletes a rule like [`crate::Bytecode::delete`].
///
/// # Panics
///
/// If the target has no rule.
pub fn delete_rule(tables: &mut Tables, target: &str) {
    batch::delete(tables, target.parse().expect("no target")).expect("cannot delete a rule");
}
