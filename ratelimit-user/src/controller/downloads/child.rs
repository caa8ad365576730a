//! The process that talks to a server.

use std::{
    env,
    io::{self, Read as _, Write},
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

use super::{
    privileges,
    protocol::{Ask, CHILD, Told},
};
use crate::{
    fetch::{Answer, Get, Trust},
    text::excerpt::excerpt,
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
        answer(&ask, &mut io::stdout().lock())
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
    let told = match status {
        StatusCode::OK => Told::List { etag: text(ETAG), last_modified: text(LAST_MODIFIED) },
        StatusCode::NOT_MODIFIED if ask.etag.is_some() || ask.last_modified.is_some() => Told::Unchanged,
        _ => return Err(refusal(status)),
    };
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        return Err(format!(
            "the server compresses the list ({}), which is not supported: use an address of the plain list",
            excerpt(&String::from_utf8_lossy(encoding.as_bytes()))
        ));
    }
    let failed = |error: io::Error| error.to_string();
    let mut line = serde_json::to_vec(&told).map_err(|error| error.to_string())?;
    line.push(b'\n');
    out.write_all(&line).map_err(failed)?;
    if told != Told::Unchanged {
        let mut part = vec![0; 64 << 10];
        loop {
            let count = body.read(&mut part).map_err(failed)?;
            match part.get(..count) {
                None | Some([]) => break,
                Some(bytes) => out.write_all(bytes).map_err(failed)?,
            }
        }
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
        address: ask.url.parse().map_err(|error: crate::fetch::AddressError| error.to_string())?,
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
