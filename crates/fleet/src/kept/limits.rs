//! Which rules for requests have other limits on other servers.

use std::time::Duration;

use ratelimit_base::text::excerpt::excerpt;
use redis::Value;

use crate::{
    engine::Engine,
    error::Error,
    key::fnv,
    script::{Script, text},
};

/// The key of what servers say.
const KEY: &str = "{rl:m}:limits";

/// A rule that another server has with other limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The name of the rule.
    pub rule: String,
    /// The server.
    pub server: String,
}

/// Tells the engine the rules of this server: the name of each one, and a text that is equal for equal limits. Returns those
/// that differ from what another server has told within `life`.
///
/// # Errors
///
/// Any [`Error`] but that of the URL.
pub async fn compare(
    engine: &Engine,
    server: &str,
    life: Duration,
    rules: &[(&str, String)],
) -> Result<Vec<Difference>, Error> {
    let script = Script::new(include_str!("limits.lua"));
    let mut arguments = vec![server.as_bytes().to_vec(), life.as_millis().to_string().into_bytes()];
    for (name, limits) in rules {
        arguments.extend([name.as_bytes().to_vec(), format!("{:016x}", fnv(limits)).into_bytes()]);
    }
    let values: Vec<Value> = engine.run(&script, &[KEY], &arguments).await?;
    let (pairs, rest) = values.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > rules.len() {
        return Err(Error::Garbage("it has another number of rules"));
    }
    let differs = |[rule, server]: &[Value; 2]| {
        let (rule, server) = (text(rule)?, text(server)?);
        let is_known = rules.iter().any(|(name, _)| *name == rule);
        if !is_known {
            return Err(Error::Garbage("it has rules that nobody asked about"));
        }
        Ok(Difference { rule: rule.to_owned(), server: excerpt(server) })
    };
    pairs.iter().map(differs).collect()
}
