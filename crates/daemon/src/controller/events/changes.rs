//! Records what operators and the daemon change, and finds new records.

use std::{collections::HashSet, env, fs, path::Path, time::Duration};

use jiff::Timestamp;
use ratelimit_base::{
    text::{excerpt::escaped, shell::quoted},
    unix_group::name_of,
};
use ratelimit_common::{
    identity::text::Text,
    maps::change::{BY_BYTES, Change, WHAT_BYTES},
};
use ratelimit_dataplane::{Error, tables::changes::Changes};
use rustix::process::getuid;

use super::notice::{Notice, What};
use crate::ssh;

/// Who makes the changes of the daemon.
pub const DAEMON: &str = "daemon";

/// The login that the kernel knows no user of.
const NO_LOGIN: u32 = u32::MAX;

/// Records the command line of this process.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn record_command(pins: &Path) -> Result<(), Error> {
    let words: Vec<_> = env::args_os().skip(1).map(|word| quoted(&escaped(&word.to_string_lossy()))).collect();
    record(pins, &operator(), &words.join(" "), false)
}

/// Records what an operator has done in another way than by a command line of its own.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn record_as_operator(pins: &Path, what: &str) -> Result<(), Error> {
    record(pins, &operator(), what, false)
}

/// Records what the daemon has done. A failure does not matter to the daemon. What it does again and again takes one
/// place, so that it displaces no change of an operator.
pub fn record_of_daemon(pins: &Path, what: &str) {
    let _ = record(pins, DAEMON, what, true);
}

/// Records what a visitor of the console has done, with the name that the console gives. No operator has such a name.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn record_of_console(pins: &Path, by: &str, what: &str) -> Result<(), Error> {
    record(pins, &format!("console {by}"), what, false)
}

fn record(pins: &Path, by: &str, what: &str, once: bool) -> Result<(), Error> {
    let Some(mut changes) = Changes::open(pins)? else { return Ok(()) };
    changes.add(&Change { by: cut::<BY_BYTES>(by), what: cut::<WHAT_BYTES>(what) }, once)
}

/// Returns the beginning of a text. Control characters are escaped.
fn cut<const N: usize>(text: &str) -> Text<N> {
    const MORE: &str = "…";
    let text = escaped(text);
    let fits = |end: &usize| text.is_char_boundary(*end) && end + MORE.len() <= N;
    match Text::new(&text) {
        Ok(whole) => whole,
        Err(_) => {
            let end = (0..text.len()).rev().find(fits).unwrap_or_default();
            Text::new(&format!("{}{MORE}", &text[..end])).unwrap_or(Text::EMPTY)
        }
    }
}

/// Returns the user who logged in, and the address of the SSH session.
pub fn operator() -> String {
    let login = fs::read_to_string("/proc/self/loginuid").ok().and_then(|text| text.trim().parse().ok());
    let name = match login.filter(|login| *login != NO_LOGIN) {
        Some(login) => user(login),
        None => env::var("SUDO_USER").unwrap_or_else(|_| user(getuid().as_raw())),
    };
    let name = if name == DAEMON { format!("user {name}") } else { name };
    ssh::session().map_or(name.clone(), |session| format!("{name} from {}", session.peer.to_canonical()))
}

/// Returns the name of a local user, or the number of another one.
fn user(id: u32) -> String {
    if id == 0 {
        return "root".to_owned();
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(id, &users).map_or_else(|| format!("user {id}"), str::to_owned)
}

/// Returns all recorded changes of an instance, the oldest first.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn past(pins: &Path) -> Result<Vec<Notice>, Error> {
    let changes = Changes::open(pins)?.map(|changes| changes.all()).transpose()?.unwrap_or_default();
    Ok(changes.iter().map(|(time, change)| notice(*time, change)).collect())
}

fn notice(time: Duration, change: &Change) -> Notice {
    // Another version can have recorded it.
    let text = |text: Option<&str>| escaped(text.unwrap_or_default());
    let at = Timestamp::UNIX_EPOCH.checked_add(time).unwrap_or(Timestamp::MAX);
    Notice { at, what: What::Changed { by: text(change.by.get()), what: text(change.what.get()) } }
}

/// The records that were reported.
#[derive(Debug, Default)]
pub(super) struct Seen(HashSet<Duration>);

impl Seen {
    /// Takes the records that are there as reported.
    pub(super) fn all_of(pins: &Path) -> Self {
        let mut seen = Self::default();
        let _ = seen.news(pins);
        seen
    }

    /// Returns the records that are new since the last call.
    pub(super) fn news(&mut self, pins: &Path) -> Result<Vec<Notice>, Error> {
        let all = Changes::open(pins)?.map(|changes| changes.all()).transpose()?.unwrap_or_default();
        let new = all.iter().filter(|(time, _)| !self.0.contains(time));
        let notices = new.map(|(time, change)| notice(*time, change)).collect();
        self.0 = all.iter().map(|(time, _)| *time).collect();
        Ok(notices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_control_characters_are_escaped() {
        let text = |text: &str| cut::<8>(text).get().unwrap_or_default().to_owned();
        assert_eq!(text("deny add"), "deny add");
        assert_eq!(text("deny add x"), "deny …");
        assert_eq!(text("äääää"), "ää…");
        assert_eq!(text("a\nb"), "a\\nb");
        assert_eq!(text(""), "");
    }

    #[test]
    fn a_user_without_a_name_has_a_number() {
        assert_eq!((user(0), user(4_000_000_001)), ("root".to_owned(), "user 4000000001".to_owned()));
    }
}
