//! Adds to errors of libraries what was attempted.

use std::{io, path::PathBuf};

use super::Error;

impl Error {
    /// Wraps an error of aya with all its causes.
    pub fn bpf(what: &'static str) -> impl Fn(&(dyn std::error::Error + 'static)) -> Self {
        move |error| {
            let mut detail = error.to_string();
            let mut cause = error.source();
            while let Some(inner) = cause {
                let text = inner.to_string();
                if !detail.contains(&text) {
                    detail += ": ";
                    detail += &text;
                }
                cause = inner.source();
            }
            Error::Bpf { what, detail: brief(&detail) }
        }
    }
}

/// Shortens a message to one line. Of the verifier's log, it keeps the objection, which is the line before the
/// statistics.
fn brief(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let objection = lines.take_while(|line| !line.starts_with("verification time")).last();
    objection.map_or_else(|| first.to_owned(), |objection| format!("{first} … {objection}"))
}

/// Adds the attempted operation to an error of aya.
pub trait Tried<T> {
    /// Returns the result with `what` in its error.
    fn tried(self, what: &'static str) -> Result<T, Error>;
}

impl<T, E: std::error::Error + 'static> Tried<T> for Result<T, E> {
    fn tried(self, what: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::bpf(what)(&error))
    }
}

/// Adds the file to an error of the system.
pub fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
    |cause| Error::Path { path: path.into(), cause }
}
