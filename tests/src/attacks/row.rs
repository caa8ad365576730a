//! The result of one attack, and the table of all.

use std::fmt::Write as _;

/// What an attack achieved, and what it may achieve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What the attacker does.
    pub attack: &'static str,
    /// The options of `attach`, and commands behind it.
    pub setup: &'static str,
    /// The packets of the attacker.
    pub forged: Packets,
    /// How many of them may pass, if there is a bound.
    pub may_pass: Option<u64>,
    /// The packets of honest sources beside the attack or after it.
    pub honest: Packets,
    /// How many of them may be dropped.
    pub may_lose: u64,
}

/// Packets of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packets {
    /// Packets that arrived.
    pub offered: u64,
    /// Packets that passed.
    pub passed: u64,
}

impl Packets {
    /// Returns the packets since an earlier count.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self { offered: self.offered - earlier.offered, passed: self.passed - earlier.passed }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { offered: self.offered + other.offered, passed: self.passed + other.passed }
    }

    /// Returns the packets that were dropped.
    #[must_use]
    pub fn lost(self) -> u64 {
        self.offered - self.passed
    }
}

impl Row {
    /// Returns what is beyond a bound, if anything is.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let Self { forged, honest, may_pass, may_lose, .. } = self;
        if let Some(most) = may_pass.filter(|most| forged.passed > *most) {
            return Some(format!("{} of {} packets of the attack passed; {most} may", forged.passed, forged.offered));
        }
        // A program that drops everything would hold every bound.
        if let Some(most) = may_pass.filter(|most| forged.passed < most / 4) {
            return Some(format!("only {} packets of the attack passed; the limit admits {most}", forged.passed));
        }
        (honest.lost() > *may_lose)
            .then(|| format!("{} of {} honest packets were lost; {may_lose} may", honest.lost(), honest.offered))
    }

    fn cells(&self) -> [String; 8] {
        let Self { attack, setup, forged, may_pass, honest, may_lose } = self;
        let number = |number: u64| grouped(number);
        let setup = setup.split("; ").map(|command| format!("`{command}`")).collect::<Vec<_>>().join("; ");
        [
            (*attack).to_owned(),
            setup,
            number(forged.offered),
            number(forged.passed),
            may_pass.map_or_else(|| "any".to_owned(), number),
            number(honest.offered),
            number(honest.lost()),
            number(*may_lose),
        ]
    }
}

/// Returns the rows as a table in Markdown.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = "| attack | setup | packets | passed | may pass | honest packets | lost | may be lost |\n\
                    |---|---|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for row in rows {
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    text
}

/// Returns a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row = Row {
        attack: "Forged pings",
        setup: "--packets 1/s; deny add ::/0",
        forged: Packets { offered: 1_200_000, passed: 1_000 },
        may_pass: None,
        honest: Packets { offered: 10_000, passed: 9_999 },
        may_lose: 1,
    };

    #[test]
    fn only_what_is_beyond_a_bound_is_a_problem() {
        assert_eq!(ROW.problem(), None);
        let lost = Row { may_lose: 0, ..ROW }.problem();
        assert_eq!(lost.as_deref(), Some("1 of 10000 honest packets were lost; 0 may"));
        let stopped = Row { may_pass: Some(4_100), ..ROW }.problem();
        assert_eq!(stopped.as_deref(), Some("only 1000 packets of the attack passed; the limit admits 4100"));
        let passed = Row { may_pass: Some(999), ..ROW }.problem();
        assert_eq!(passed.as_deref(), Some("1000 of 1200000 packets of the attack passed; 999 may"));
    }

    #[test]
    fn rows_become_lines_of_a_table() {
        let text = table(&[ROW]);
        assert_eq!(
            text.lines().last(),
            Some("| Forged pings | `--packets 1/s`; `deny add ::/0` | 1,200,000 | 1,000 | any | 10,000 | 1 | 1 |")
        );
    }
}
