//! Why an engine does not answer, as an operator hears of it.

use crate::error::Error;

/// The most reasons of one outage that an operator hears of.
const MOST: usize = 5;

/// The reasons of one outage that the operator knows.
#[derive(Debug, Default)]
pub struct Outage(Vec<String>);

impl Outage {
    /// Takes a failure. Returns whether the operator must hear of it: its reason is another one, and there are few.
    pub fn has_new(&mut self, error: &Error) -> bool {
        // How long a call was given is no reason.
        let reason = if let Error::Silent(_) = error { String::new() } else { error.to_string() };
        let is_new = self.0.len() < MOST && !self.0.contains(&reason);
        if is_new {
            self.0.push(reason);
        }
        is_new
    }

    /// Ends the outage.
    pub fn end(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_reason_is_new_once_in_an_outage_and_few_are() {
        let lost = |text: &str| Error::Lost(text.to_owned());
        let silent = |seconds| Error::Silent(Duration::from_secs(seconds));
        let mut outage = Outage::default();
        for (error, expected) in [
            (silent(1), true),
            (silent(2), false),
            (lost("refused"), true),
            (silent(1), false),
            (lost("refused"), false),
            (lost("a"), true),
            (lost("b"), true),
            (lost("c"), true),
            (lost("d"), false),
        ] {
            assert_eq!(outage.has_new(&error), expected, "{error:?}");
        }
        outage.end();
        assert!(outage.has_new(&lost("refused")));
    }
}
