//! The CPU time of a process.

use std::fs;

use anyhow::{Context as _, Result};

/// Ticks of a second in `/proc` (USER_HZ).
const TICKS: f64 = 100.0;

/// Returns the ticks of a process in user and in kernel mode.
pub(crate) fn ticks(process: u32) -> Result<[u64; 2]> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    in_stat(&stat).with_context(|| format!("the kernel does not tell the CPU time of {process}"))
}

/// Returns the CPU seconds of a process in user and kernel mode.
pub(crate) fn cpu_seconds(process: u32) -> Result<f64> {
    let [user, system] = ticks(process)?;
    Ok((user + system) as f64 / TICKS)
}

/// Reads them in its `stat`. The name of its program may contain spaces.
fn in_stat(stat: &str) -> Option<[u64; 2]> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::in_stat;

    #[test]
    fn cpu_time_is_found_behind_any_name_of_a_program() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 150 0 1 0 12 30 5 6 20 0 1 0 99 1 1";
        assert_eq!(in_stat(stat), Some([12, 30]));
        for stat in ["", "7 (redis) S 1", "7 (redis) S 1 7 7 0 -1 4194304 150 0 1 0 12"] {
            assert_eq!(in_stat(stat), None, "{stat}");
        }
    }
}
