//! Scripts that run on the server.

use redis::{Arg, Cmd, ErrorKind, RedisResult, ServerErrorKind, Value, cmd};

use crate::fleet::{address::Link, error::Error};

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
    pub(super) fn call<'a>(&self, keys: impl ExactSizeIterator<Item = &'a str>, arguments: &[Vec<u8>]) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.hash).arg(keys.len());
        keys.for_each(|key| {
            call.arg(key);
        });
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
    str::from_utf8(bytes).map_err(|_| Error::Garbage("a text is no text"))
}
