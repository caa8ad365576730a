//! A rule that a file breaks, as all checks report it.

use std::fmt;

/// One rule that a file breaks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path of the file or folder from the root.
    pub file: String,
    /// The line, counted from 1; 0 if the finding is about all of it.
    pub line: usize,
    /// The rule that is broken.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.problem),
            line => write!(f, "{}:{line}: {}", self.file, self.problem),
        }
    }
}
