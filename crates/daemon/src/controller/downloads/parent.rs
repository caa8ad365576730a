//! Starts the process, and reads its answer within bounds.

use std::{
    io::{self, BufRead as _, BufReader, Read, Write as _},
    os::{fd::AsFd, unix::process::CommandExt as _},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use ratelimit_base::text::excerpt::message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    judge,
    protocol::{Ask, CHILD, LINE, Told},
};
use crate::config::daemon::{kept::Kept, remote::Remote};

/// The time for a list.
const TIME: Duration = Duration::from_secs(60);

/// How much longer the process may take than the server.
const GRACE: Duration = Duration::from_secs(5);

/// Variables of the environment that say whom the system trusts, and how names are found.
const KEPT: [&str; 4] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "LOCALDOMAIN", "RES_OPTIONS"];

/// What a server has said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    /// The copy is still its list.
    Unchanged,
    /// This is its list.
    List {
        /// One prefix per line.
        list: Vec<u8>,
        etag: Option<String>,
        last_modified: Option<String>,
        /// The lines of the server that are left out, in words.
        skipped: Option<String>,
    },
}

/// Fetches a list, of which the daemon may have a copy.
pub(super) fn fetch(remote: &Remote, known: Option<&Kept>) -> Result<Fetched, String> {
    let ask = Ask {
        url: remote.address.as_str().to_owned(),
        etag: known.and_then(|known| known.etag.clone()),
        last_modified: known.and_then(|known| known.last_modified.clone()),
        token: remote.token.as_ref().map(|token| token.text().to_owned()),
        authorities: remote.authorities.clone(),
        most: remote.most,
        entries: remote.entries,
        milliseconds: u64::try_from(TIME.as_millis()).unwrap_or_default(),
    };
    let mut process = start().map_err(|error| format!("no process for it can be started: {error}"))?;
    let answer = talk(&mut process, &ask);
    // It has ended, or must not go on.
    let _ = process.kill();
    let status = process.wait().map_err(|error| error.to_string())?;
    match answer {
        Ok((_, why)) if !why.is_empty() => Err(why),
        Ok((fetched, _)) if status.success() => fetched.ok_or_else(|| "the process for it has no answer".to_owned()),
        Ok(_) => Err(format!("the process for it has failed: {status}")),
        Err(error) => Err(error.to_string()),
    }
}

fn start() -> io::Result<Child> {
    // The path of the program can lead to another version meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ratelimit").env_clear().env(CHILD, "1").current_dir("/");
    command.envs(KEPT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Sends the request. Returns the answer and the reason of a failure. One of the two is there, unless the process breaks.
fn talk(process: &mut Child, ask: &Ask) -> io::Result<(Option<Fetched>, String)> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let end = Instant::now() + TIME + GRACE;
    // A process that fails first reads nothing, and says why.
    let _ = stdin.write_all(&serde_json::to_vec(ask)?);
    drop(stdin);
    let fetched = read(Timed { pipe: stdout, end }, judge::most_bytes(ask.entries))?;
    let mut why = Vec::new();
    Timed { pipe: stderr, end }.take(LINE).read_to_end(&mut why)?;
    Ok((fetched, message(String::from_utf8_lossy(&why).trim())))
}

/// Reads an answer. None if the process has none.
fn read(pipe: impl Read, most: u64) -> io::Result<Option<Fetched>> {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    pipe.by_ref().take(LINE).read_until(b'\n', &mut line)?;
    let Ok(told) = serde_json::from_slice(&line) else { return Ok(None) };
    Ok(Some(match told {
        Told::Unchanged => Fetched::Unchanged,
        Told::List { etag, last_modified, skipped } => {
            let mut list = Vec::new();
            pipe.take(most).read_to_end(&mut list)?;
            Fetched::List { list, etag, last_modified, skipped: skipped.as_deref().map(message) }
        }
    }))
}

/// A pipe that is read until a time.
struct Timed<P> {
    pipe: P,
    end: Instant,
}

impl<P: Read + AsFd> Read for Timed<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::TimedOut)?;
        let count = poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&left))?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the process for it does not answer"));
        }
        self.pipe.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_within_bounds_and_time() {
        let list = b"{\"List\":{\"etag\":\"a\",\"last_modified\":null,\"skipped\":null}}\n192.0.2.1\n";
        let expected = |list: &[u8]| Fetched::List {
            list: list.to_vec(),
            etag: Some("a".to_owned()),
            last_modified: None,
            skipped: None,
        };
        assert_eq!(read(&list[..], 100).unwrap(), Some(expected(b"192.0.2.1\n")));
        assert_eq!(read(&list[..], 3).unwrap(), Some(expected(b"192")));
        assert_eq!(read(&b"\"Unchanged\"\n"[..], 3).unwrap(), Some(Fetched::Unchanged));
        assert_eq!(read(&b""[..], 3).unwrap(), None);
        assert_eq!(read(&[b'x'; 100_000][..], 3).unwrap(), None);

        let (silent, _writer) = io::pipe().unwrap();
        let end = Instant::now() + Duration::from_millis(20);
        let error = read(Timed { pipe: silent, end }, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
