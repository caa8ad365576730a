//! Rules *allow* that a change would overrule, in words.

/// A rule that would overrule a rule *allow*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overruled {
    /// The rule that would be set.
    pub rule: String,
    /// The rule *allow*: the same, or one around it.
    pub allowed: String,
}

impl Overruled {
    /// Returns why the rule is not set.
    #[must_use]
    pub fn why(&self) -> String {
        match self.rule == self.allowed {
            true => format!("{} has the rule allow, which this would replace", self.rule),
            false => format!("{} is inside {}, which has the rule allow", self.rule, self.allowed),
        }
    }

    pub(super) fn in_words(overruled: &[Self]) -> String {
        match overruled {
            [] => String::new(),
            [one] => one.why(),
            [first, others @ ..] => format!("{}, and {} more", first.why(), others.len()),
        }
    }
}
