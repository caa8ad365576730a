//! The process that talks to a server.

use std::{
    env,
    io::{self, BufWriter, Read as _, Write},
    process::ExitCode,
    time::Duration,
};

use hyper::{
    StatusCode,
    header::{
        AUTHORIZATION, CONTENT_ENCODING, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
        LAST_MODIFIED,
    },
};
use ratelimit_base::{
    fetch::{Answer, Get, Trust},
    text::excerpt::excerpt,
};
use ratelimit_dataplane::lists::entries::Entries;

use super::{
    judge::{self, List},
    privileges,
    protocol::{Ask, CHILD, Told},
};

/// The most redirects.
const REDIRECTS: usize = 5;

/// The most bytes of a version or a time of a list.
const VERSION: usize = 1_024;

/// If this process is to talk to a server, gives up all privileges, answers one request, and returns the exit status.
#[must_use]
pub fn child() -> Option<ExitCode> {
    env::var_os(CHILD).map(|_| run())
}

fn run() -> ExitCode {
    let answered = privileges::give_up().map_err(|error| error.to_string()).and_then(|()| {
        let ask = serde_json::from_reader(io::stdin().lock()).map_err(|error| error.to_string())?;
        answer(&ask, &mut BufWriter::new(io::stdout().lock()))
    });
    match answered {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // The daemon may have ended.
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the answer to a request.
pub(super) fn answer(ask: &Ask, out: &mut dyn Write) -> Result<(), String> {
    let Answer { status, headers, mut body } = get(ask)?.send().map_err(|error| error.to_string())?;
    let text = |name: HeaderName| {
        let text = headers.get(name)?.to_str().ok()?;
        (text.len() <= VERSION).then(|| text.to_owned())
    };
    let is_list = match status {
        StatusCode::OK => true,
        StatusCode::NOT_MODIFIED if ask.etag.is_some() || ask.last_modified.is_some() => false,
        _ => return Err(refusal(status)),
    };
    // What is packed by gzip is unpacked as a list.
    let is_known = |encoding: &&HeaderValue| ["identity", "gzip", "x-gzip"].iter().any(|known| encoding == known);
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| !is_known(encoding)) {
        return Err(format!(
            "the server compresses the list ({}), which is not supported: use an address of the plain list",
            excerpt(&String::from_utf8_lossy(encoding.as_bytes()))
        ));
    }
    let failed = |error: io::Error| error.to_string();
    let (told, entries) = if is_list {
        let mut list = Vec::new();
        body.read_to_end(&mut list).map_err(failed)?;
        let List { entries, skipped } = judge::judge(&list, ask.entries)?;
        (Told::List { etag: text(ETAG), last_modified: text(LAST_MODIFIED), skipped }, Some(entries))
    } else {
        (Told::Unchanged, None)
    };
    let mut line = serde_json::to_vec(&told).map_err(|error| error.to_string())?;
    line.push(b'\n');
    out.write_all(&line).map_err(failed)?;
    for prefix in entries.iter().flat_map(Entries::iter) {
        writeln!(out, "{prefix}").map_err(failed)?;
    }
    out.flush().map_err(failed)
}

fn get(ask: &Ask) -> Result<Get, String> {
    let mut headers = HeaderMap::new();
    let versions = [(IF_NONE_MATCH, &ask.etag), (IF_MODIFIED_SINCE, &ask.last_modified)];
    for (name, value) in versions {
        if let Some(value) = value.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(name, value);
        }
    }
    if let Some(token) = &ask.token {
        let mut token = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| error.to_string())?;
        token.set_sensitive(true);
        headers.insert(AUTHORIZATION, token);
    }
    let trust = ask.authorities.as_deref().map_or(Ok(Trust::System), Trust::of_pem);
    Ok(Get {
        address: ask.url.parse().map_err(|error: ratelimit_base::fetch::AddressError| error.to_string())?,
        headers,
        trust: trust.map_err(|error| error.to_string())?,
        redirects: REDIRECTS,
        most: ask.most,
        time: Duration::from_millis(ask.milliseconds),
    })
}

/// Returns what an answer without a list says.
fn refusal(status: StatusCode) -> String {
    let advice = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": check token-file",
        StatusCode::NOT_FOUND | StatusCode::GONE => ": check the address",
        StatusCode::TOO_MANY_REQUESTS => ": raise every",
        _ => "",
    };
    format!("the server answers {status}{advice}")
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    /// Returns what the process makes of an answer. It has a copy with a version, if `etag` is some.
    fn told(response: &'static str, etag: Option<&str>) -> Result<String, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://127.0.0.1:{}/drop", listener.local_addr().unwrap().port());
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(format!("HTTP/1.1 {response}").as_bytes()).unwrap();
        });
        let ask =
            Ask { url, etag: etag.map(str::to_owned), most: 100, entries: 3, milliseconds: 20_000, ..Ask::default() };
        let mut out = Vec::new();
        let answered = answer(&ask, &mut out);
        server.join().unwrap();
        answered.map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn only_a_list_or_an_unchanged_one_is_an_answer() {
        let list = "200 OK\r\nETag: \"2\"\r\nLast-Modified: then\r\nContent-Length: 35\r\n\r\n\
                    # feed\n192.0.2.9 ; new\n192.0.2.0/24";
        let expected =
            "{\"List\":{\"etag\":\"\\\"2\\\"\",\"last_modified\":\"then\",\"skipped\":null}}\n192.0.2.0/24\n";
        assert_eq!(told(list, None).as_deref(), Ok(expected));
        let unchanged = "304 Not Modified\r\n\r\n";
        assert_eq!(told(unchanged, Some("\"1\"")).as_deref(), Ok("\"Unchanged\"\n"));
        for (response, expected) in [
            (unchanged, "the server answers 304 Not Modified"),
            ("401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "401 Unauthorized: check token-file"),
            ("404 Not Found\r\nContent-Length: 0\r\n\r\n", "404 Not Found: check the address"),
            ("429 Too Many Requests\r\nContent-Length: 0\r\n\r\n", "429 Too Many Requests: raise every"),
            ("500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", "500 Internal Server Error"),
            ("206 Partial Content\r\nContent-Length: 3\r\n\r\n192", "206 Partial Content"),
            ("200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\n1", "compresses the list (br)"),
            (
                "200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x0b\x08",
                "the answer is no list: 1 of 1 lines",
            ),
            ("200 OK\r\nContent-Length: 16\r\n\r\n::1\n::3\n::5\n::7\n", "has 4 entries, and 3 are allowed"),
            ("200 OK\r\nContent-Length: 101\r\n\r\n", "the answer has more than 100 bytes"),
            ("200 OK\r\nContent-Length: 10\r\n\r\n192", "cannot be read"),
        ] {
            let why = told(response, None).unwrap_err();
            assert!(why.contains(expected), "{response}: {why}");
        }
    }
}
