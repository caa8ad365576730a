//! Evaluates the output of guests, and prints the table of all guests.

use super::{
    kernel::Name,
    suite::{BEGIN, END},
};

/// Names of the programs in the size columns.
const SIZED: [&str; 2] = ["default", "everything"];

/// Size of one program.
#[derive(Debug, Default)]
struct Size {
    in_kernel: String,
    verified: String,
    load_time: String,
}

/// Results of one kernel.
#[derive(Debug, Default)]
pub(super) struct Report {
    passed: usize,
    failed: usize,
    /// Excluded under emulation, or the kernel lacks the feature.
    skipped: usize,
    /// Sizes that the size tests print: of the default program, and of the one with all features.
    sizes: [Size; 2],
    /// Failures as text.
    pub(super) failures: Vec<String>,
}

impl Report {
    /// Reads the output of a job with these test programs on this kernel.
    pub(super) fn read(kernel: Name, programs: &[&str], text: &str) -> Self {
        let mut report = Self::default();
        if kernel == Name::Old {
            report.refusal(section(text, "refusal"));
        } else {
            for program in programs {
                report.program(program, section(text, program));
            }
        }
        report
    }

    /// Whether all programs ran and no test failed.
    pub(super) fn is_good(&self) -> bool {
        self.failures.is_empty() && self.failed == 0 && self.passed > 0
    }

    /// Counts the refusal of a kernel that is too old: one line, and exit status 2.
    fn refusal(&mut self, section: Option<(Vec<&str>, i32)>) {
        match section {
            Some((lines, 2)) if lines.len() == 1 && is_refusal(lines[0]) => self.passed += 1,
            other => {
                self.failed += 1;
                self.failures.push(format!("expected a refusal, got: {other:?}"));
            }
        }
    }

    /// Counts the tests of one program.
    fn program(&mut self, program: &str, section: Option<(Vec<&str>, i32)>) {
        let Some((lines, status)) = section else {
            self.failures.push(format!("{program} did not end"));
            return;
        };
        let below = lines.iter().filter(|line| line.starts_with("skipped: ")).count();
        let result = lines.iter().rev().find_map(|line| line.strip_prefix("test result: "));
        let count = |what: &str| result.and_then(|line| number_before(line, what));
        let counts = (count(" passed"), count(" failed"), count(" filtered out"));
        if let (Some(passed), Some(failed), Some(left_out)) = counts {
            self.passed += passed.saturating_sub(below);
            self.failed += failed;
            self.skipped += left_out + below;
        }
        if counts.0.is_none_or(|passed| passed == 0) || status != 0 {
            let details = lines.iter().position(|line| *line == "failures:").unwrap_or(0);
            self.failures.push(format!("{program}: exit status {status}\n{}", lines[details..].join("\n")));
        }
        for (name, size) in SIZED.iter().zip(&mut self.sizes) {
            let line = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.into_iter().for_each(|line| size.read(line));
        }
    }
}

impl Size {
    fn read(&mut self, line: &str) {
        for part in line.split("; ") {
            match part.split_once(": ").or(part.split_once(" in ")) {
                Some(("verified instructions", number)) => number.clone_into(&mut self.verified),
                Some(("in the kernel", number)) => number.clone_into(&mut self.in_kernel),
                Some(("loaded", time)) => time.clone_into(&mut self.load_time),
                _ => {}
            }
        }
    }

    /// The cell of the table: instructions in the kernel, instructions verified, and time to load.
    fn cell(&self) -> String {
        match self.in_kernel.as_str() {
            "" => "-".to_owned(),
            in_kernel => format!("{in_kernel}, {}, {}", self.verified, self.load_time),
        }
    }
}

fn is_refusal(line: &str) -> bool {
    line.starts_with("ratelimit: kernel 5.10.") && line.ends_with("BPF programs, as in Linux 5.15")
}

/// The output of one step of the job, and its exit status. Returns nothing if the step did not end.
fn section<'a>(text: &'a str, name: &str) -> Option<(Vec<&'a str>, i32)> {
    let mut lines = text.lines().map(str::trim_end).skip_while(|line| line.strip_prefix(BEGIN) != Some(name));
    lines.next()?;
    let mut printed = Vec::new();
    for line in lines {
        let end = line.strip_prefix(END).and_then(|rest| rest.split_once(' '));
        match end {
            Some((ended, status)) if ended == name => return Some((printed, status.parse().ok()?)),
            _ => printed.push(line),
        }
    }
    None
}

/// The number right before `what`.
fn number_before(line: &str, what: &str) -> Option<usize> {
    line.split_once(what)?.0.rsplit(' ').next()?.parse().ok()
}

/// The row of one kernel. Its status distinguishes guests that died from tests that failed.
pub(super) struct Row {
    pub(super) kernel: Name,
    pub(super) release: String,
    pub(super) status: &'static str,
    pub(super) report: Report,
    pub(super) seconds: u64,
}

/// Formats one line per kernel.
pub(super) fn table(rows: &[Row]) -> String {
    let heading = ["kernel", "release", "result", "passed", "failed", "skipped", SIZED[0], SIZED[1], "guest"];
    let mut cells = vec![heading.map(str::to_owned)];
    for Row { kernel, release, status, report, seconds } in rows {
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        cells.push([
            kernel.text().to_owned(),
            or_dash(release),
            (*status).to_owned(),
            report.passed.to_string(),
            report.failed.to_string(),
            report.skipped.to_string(),
            report.sizes[0].cell(),
            report.sizes[1].cell(),
            format!("{seconds} s"),
        ]);
    }
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let line = |row: &[String; 9]| {
        let padded = row.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    cells.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{Name, Report};
    use crate::vm::suite::PROGRAMS;

    fn refusal(line: &str, status: i32) -> bool {
        Report::read(Name::Old, &PROGRAMS, &format!("== begin refusal\r\n{line}\r\n== end refusal {status}\r\n"))
            .is_good()
    }

    #[test]
    fn an_old_kernel_needs_exactly_the_documented_refusal() {
        let line = "ratelimit: kernel 5.10.0-32 is too old: ratelimit needs compare-and-exchange in BPF programs, as in Linux 5.15";
        assert!(refusal(line, 2));
        assert!(!refusal(line, 1));
        assert!(!refusal(&format!("{line}\n{line}"), 2));
        assert!(!refusal("ratelimit: missing privilege CAP_BPF", 2));
        assert!(!Report::read(Name::Old, &PROGRAMS, "== begin refusal").is_good());
    }

    #[test]
    fn every_program_must_run_tests_and_end_with_status_0() {
        let program = |name: &str, status: i32| {
            let counts = "1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.10s";
            let size =
                "default: verified instructions: 10; in the kernel: 5; loaded in 7 ms\nskipped: frags need Linux 5.18";
            format!("== begin {name}\n{size}\ntest result: ok. {counts}\n== end {name} {status}\n")
        };
        let all = PROGRAMS.map(|name| program(name, 0)).concat();
        let mut report = Report::read(Name::V6_1, &PROGRAMS, &all);
        assert_eq!((report.passed, report.failed, report.skipped), (0, 0, 20));
        assert_eq!([report.sizes[0].cell(), report.sizes[1].cell()], ["5, 10, 7 ms", "-"]);
        report = Report::read(Name::V6_1, &PROGRAMS, &all.replace("skipped: ", ""));
        assert!(report.is_good() && report.passed == 5);
        assert!(!Report::read(Name::V6_1, &PROGRAMS, &all.replace("end sandbox 0", "end sandbox 101")).is_good());
        assert!(!Report::read(Name::V6_1, &PROGRAMS, &all.replace("== end network", "")).is_good());
        assert!(
            !Report::read(Name::V6_1, &PROGRAMS, &all.replacen("1 passed", "0 passed", 1)).is_good(),
            "nothing ran"
        );
    }
}
