//! The key `stop-at-nic` of rules: what it needs.

use ratelimit_base::tables::table::{Table, Value};
use ratelimit_limiter::{ADDRESS, Rule};

use super::listen::{Listen, Listens};
use crate::sharing::is_identity;

/// The key.
pub(super) const KEY: &str = "stop-at-nic";
/// The most rules with it. Each request is counted for each of them.
const MOST: usize = 64;

/// Adds a problem if clients of these rules cannot be stopped, and one for each rule that does not tell clients apart.
pub(super) fn check(tables: &[Table<'_>], rules: &[Rule], has_socket: bool, Listens { http, grpc, .. }: &Listens) {
    let of = |name: &str| tables.iter().find(|table| table.get("name").and_then(text).as_deref() == Some(name));
    let rules = rules.iter().filter(|rule| rule.stops());
    let rules: Vec<_> = rules.filter_map(|rule| Some((rule, of(rule.name())?.get(KEY)?))).collect();
    for (rule, value) in &rules {
        // Many people share an address.
        if !rule.attributes().iter().any(|name| is_identity(name) && name != ADDRESS) {
            value.wrong(
                "add an attribute to `key` that says who asks, such as user. `ip` does not: others would be stopped too",
            );
        }
    }
    let Some((_, first)) = rules.first() else { return };
    let mut listens = [http, grpc].into_iter().flatten().peekable();
    // A socket that is wrong has a problem of its own.
    if !has_socket {
        first.wrong("add `stops` to the table [serve]: the socket of [stops] in the file of the daemon");
    } else if listens.peek().is_some() && !listens.any(|listen| matches!(listen, Listen::Unix(_))) {
        first.wrong("only callers of a Unix socket may name connections: add `http` or `grpc` as unix:/PATH");
    } else if rules.len() > MOST {
        first.wrong(format!("at most {MOST} rules can have this key"));
    }
}

/// Returns a text without a problem if it is none.
fn text(value: Value<'_>) -> Option<String> {
    value.words().and_then(|words| words.into_iter().next())
}
