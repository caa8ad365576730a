//! Scripts that run on the server.

use redis::{Arg, Cmd, ErrorKind, RedisResult, ServerErrorKind, Value, cmd};

use crate::{address::Link, error::Error};

/// Bytes of the beginning of a call, and of most keys.
const HEAD: usize = 64;
const KEY: usize = 48;

/// A script, which a server remembers by its hash.
#[derive(Debug, Clone)]
pub(super) struct Script {
    text: &'static str,
    hash: String,
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// Returns a call of it with these keys and arguments.
    pub(super) fn call<'a>(&self, keys: impl ExactSizeIterator<Item = &'a [u8]>, arguments: &[Vec<u8>]) -> Cmd {
        let bytes: usize = arguments.iter().map(Vec::len).sum();
        let mut call = Cmd::with_capacity(3 + keys.len() + arguments.len(), HEAD + keys.len() * KEY + bytes);
        call.arg("EVALSHA").arg(&self.hash).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call.arg(arguments);
        call
    }

    /// Runs a call of it. A server that does not know it gets its text, and only the server that has the keys.
    pub(super) async fn run(&self, link: &mut Link, call: &Cmd) -> RedisResult<Value> {
        match link.ask(call).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                link.ask(&self.in_full(call)).await
            }
            answer => answer,
        }
    }

    /// Returns the same call with the text in place of its hash.
    fn in_full(&self, call: &Cmd) -> Cmd {
        let mut full = cmd("EVAL");
        full.arg(self.text);
        for argument in call.args_iter().skip(2) {
            if let Arg::Simple(bytes) = argument {
                full.arg(bytes);
            }
        }
        full
    }
}

/// Returns a text that a script has answered.
pub(super) fn text(value: &Value) -> Result<&str, Error> {
    let Value::BulkString(bytes) = value else { return Err(Error::Garbage("a text is missing")) };
    str::from_utf8(bytes).map_err(|_| Error::Garbage("a value is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_the_script_gets_the_same_call_with_the_text() {
        let script = Script::new("return 1");
        let call = script.call([&b"one"[..], b"two"].into_iter(), &[b"first".to_vec(), vec![0, 255]]);
        let words = |call: &Cmd| -> Vec<Vec<u8>> {
            let bytes = call.args_iter().map(|argument| match argument {
                Arg::Simple(bytes) => bytes.to_vec(),
                _ => Vec::new(),
            });
            bytes.collect()
        };
        let rest = [&b"2"[..], b"one", b"two", b"first", &[0, 255]];
        let expected = |head: [&str; 2]| -> Vec<Vec<u8>> {
            head.into_iter().map(str::as_bytes).chain(rest).map(<[u8]>::to_vec).collect()
        };
        assert_eq!(words(&call), expected(["EVALSHA", &script.hash]));
        assert_eq!(words(&script.in_full(&call)), expected(["EVAL", "return 1"]));
    }
}
