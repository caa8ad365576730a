//! Bodies of calls by HTTP, and whole calls.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use ratelimit_tests::generate::random::Random;
use serde_json::Value;

use super::{
    mutate::mutated,
    server::{Server, TOKEN},
    target::{Target, lines},
};

/// The most characters of an error.
const ERROR: usize = 1_000;
/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time in which a whole call is usually answered.
const ANSWER: Duration = Duration::from_millis(5);

/// Bodies on one connection, as long as the server keeps it.
pub(super) struct Bodies {
    socket: PathBuf,
    head: String,
    corpus: Vec<Vec<u8>>,
    line: BufReader<UnixStream>,
}

impl Bodies {
    pub(super) fn new(server: &Server, name: &str) -> Result<Self> {
        let (head, corpus) = match name {
            "check" => ("POST /v1/check".to_owned(), include_str!("../../../../data/requests/check.txt")),
            "batch" => ("POST /v1/check/batch".to_owned(), include_str!("../../../../data/requests/batch.txt")),
            _ => ("PUT /v1/rules/a?dry-run=true".to_owned(), include_str!("../../../../data/requests/rule.txt")),
        };
        let head = format!("{head} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: ");
        Ok(Self { head, corpus: lines(corpus), line: connect(&server.http)?, socket: server.http.clone() })
    }
}

fn connect(socket: &PathBuf) -> Result<BufReader<UnixStream>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}

impl Target for Bodies {
    fn next(&mut self, random: &mut Random) -> Result<&'static str> {
        let body = mutated(&self.corpus, random);
        let mut call = format!("{}{}\r\n\r\n", self.head, body.len()).into_bytes();
        call.extend(&body);
        let shown = || String::from_utf8_lossy(&body[..body.len().min(2_000)]).into_owned();
        // The server does not read a body that is too large.
        let _ = self.line.get_mut().write_all(&call);
        let (status, answer, is_last) = read(&mut self.line).with_context(shown)?;
        if is_last || body.len() > 16 << 10 {
            self.line = connect(&self.socket)?;
        }
        check(status, &answer).with_context(shown)
    }
}

/// Reads an answer: its status, its body, and whether the connection ends with it.
fn read(line: &mut BufReader<UnixStream>) -> Result<(u16, Vec<u8>, bool)> {
    let (mut status, mut length, mut is_last) = (None, 0, false);
    loop {
        let mut text = String::new();
        ensure!(line.read_line(&mut text)? > 0, "no answer");
        let text = text.trim_end().to_ascii_lowercase();
        if let Some(rest) = text.strip_prefix("http/1.1 ") {
            status = rest.split(' ').next().and_then(|status| status.parse().ok());
        } else if let Some(rest) = text.strip_prefix("content-length: ") {
            length = rest.parse()?;
        } else if text == "connection: close" {
            is_last = true;
        } else if text.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    line.read_exact(&mut body)?;
    Ok((status.context("no status")?, body, is_last))
}

/// Returns what the server has answered, or what is wrong with that.
fn check(status: u16, body: &[u8]) -> Result<&'static str> {
    let answer: Value = serde_json::from_slice(body).context("the answer is no JSON")?;
    match status {
        200 if answer.get("name").is_some() => Ok("accepted"),
        200 | 429 => {
            ensure!(answer["allowed"] == Value::Bool(status == 200), "{status}: {answer}");
            if let Some(decisions) = answer.get("decisions") {
                let decisions = decisions.as_array().context("no decisions")?;
                ensure!((1..=100).contains(&decisions.len()), "{} decisions", decisions.len());
                let all = decisions.iter().all(|decision| decision["allowed"] == Value::Bool(true));
                ensure!(all == (status == 200), "{status}: {answer}");
            }
            Ok(if status == 200 { "allowed" } else { "refused" })
        }
        400 | 413 => {
            let error = answer["error"].as_str().context("no error")?;
            ensure!(!error.is_empty() && error.chars().count() <= ERROR, "an error of {} bytes", error.len());
            ensure!(!error.chars().any(|c| c.is_control() && c != '\n'), "an error with control characters: {error:?}");
            Ok(if status == 400 { "bad" } else { "too large" })
        }
        _ => bail!("{status}: {answer}"),
    }
}

/// Whole calls, each on a connection of its own.
pub(super) struct Calls {
    socket: PathBuf,
    corpus: Vec<Vec<u8>>,
}

impl Calls {
    pub(super) fn new(server: &Server) -> Self {
        let corpus = include_str!("../../../../data/requests/call.txt").replace("||\n", "|\u{0}|\n");
        let whole = |line: &str| line.replace('\u{0}', "").replace('|', "\r\n").into_bytes();
        Self { socket: server.http.clone(), corpus: corpus.lines().map(whole).collect() }
    }
}

impl Target for Calls {
    fn next(&mut self, random: &mut Random) -> Result<&'static str> {
        let call = mutated(&self.corpus, random);
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let _ = stream.write_all(&call);
        // The server answers no caller that has closed its side. Most calls without an end have no answer at all.
        stream.set_read_timeout(Some(ANSWER))?;
        let mut answer = vec![0; 4_096];
        let count = stream.read(&mut answer).unwrap_or(0);
        answer.truncate(count);
        let _ = stream.shutdown(Shutdown::Write);
        stream.set_read_timeout(Some(PATIENCE))?;
        // The server resets a connection of which it has not read all.
        if let Err(error) = stream.read_to_end(&mut answer) {
            ensure!(
                error.kind() == std::io::ErrorKind::ConnectionReset,
                "{error}: {:?}",
                String::from_utf8_lossy(&call)
            );
        }
        if answer.is_empty() {
            return Ok("no answer");
        }
        let status =
            answer.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|s| std::str::from_utf8(s).ok());
        match status {
            Some("100" | "200" | "201" | "204") => Ok("answered"),
            Some("400" | "401" | "403" | "404" | "405" | "408" | "412" | "413" | "414" | "428" | "429" | "431") => {
                Ok("refused")
            }
            _ => bail!("{:?} after {:?}", String::from_utf8_lossy(&answer), String::from_utf8_lossy(&call)),
        }
    }
}
