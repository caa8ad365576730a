//! Scripts that run on the server.

use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, ToRedisArgs, Value, cmd};

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

    /// Runs it. A server that does not know it gets its text, and only the server that has the keys.
    pub(super) async fn run<K: ToRedisArgs, A: ToRedisArgs>(
        &self,
        link: &mut Link,
        keys: &[K],
        arguments: &[A],
    ) -> RedisResult<Value> {
        let call = |name: &str, script: &str| -> Cmd {
            let mut call = cmd(name);
            call.arg(script).arg(keys.len()).arg(keys).arg(arguments);
            call
        };
        match link.ask(&call("EVALSHA", &self.hash)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                link.ask(&call("EVAL", self.text)).await
            }
            answer => answer,
        }
    }
}

/// Returns a text that a script has answered.
pub(super) fn text(value: &Value) -> Result<&str, Error> {
    let Value::BulkString(bytes) = value else { return Err(Error::Garbage("a text is missing")) };
    str::from_utf8(bytes).map_err(|_| Error::Garbage("a text is no text"))
}
