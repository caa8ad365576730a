//! What the configuration file says about requests: its problems, and what has no effect.

use std::path::Path;

use anyhow::Result;
use ratelimit_base::text::excerpt::escaped;
use ratelimit_daemon::config::{Config, RequestTables};
use ratelimit_fleet::way::Place;
use ratelimit_server::{
    config::{self as requests, Requests, tokens::Scope},
    serve,
};

use super::warnings::without_group;

/// How the configuration file is checked for requests.
pub(crate) const REQUEST_TABLES: RequestTables = requests::checked;

/// What the tables of a good file mean for this host.
#[derive(Debug, Default)]
pub(super) struct ServeTables {
    /// Whether the file is for `ratelimit serve`.
    pub(super) is_for_serve: bool,
    /// What has no effect.
    pub(super) warnings: Vec<String>,
    /// Why `ratelimit serve` could not serve.
    pub(super) problems: Vec<String>,
}

impl ServeTables {
    /// Reads the tables of a file whose other tables are `config`.
    pub(super) fn read(file: &Path, config: &Config) -> Result<Self> {
        let requests = requests::read(file)?;
        let is_for_serve = requests.has_table || requests.console.is_some() || config.requests != 0;
        let mut warnings = warnings(&requests);
        let problems = problems(&requests, &mut warnings);
        Ok(Self { is_for_serve, warnings, problems })
    }
}

fn warnings(requests: &Requests) -> Vec<String> {
    let console = ("console", requests.console.as_ref().and_then(|console| console.group.as_deref()));
    let all = [without_server(requests), without_group(console), without_caller(requests)];
    all.into_iter().flatten().chain(without_store(requests)).map(|warning| escaped(&warning)).collect()
}

/// Returns why `ratelimit serve` could not serve, although the text of the file is good. Adds why clients would refuse its
/// certificate to `warnings`.
fn problems(requests: &Requests, warnings: &mut Vec<String>) -> Vec<String> {
    let nothing = requests.has_table.then(|| serve::check(requests).err()).flatten();
    let certificate = requests.encryption.as_ref().map(serve::check_certificate).transpose();
    warnings.extend(certificate.iter().flatten().flatten().cloned());
    nothing.into_iter().chain(certificate.err()).collect()
}

fn without_server(requests: &Requests) -> Option<String> {
    let table = match requests {
        Requests { has_table: true, .. } => None,
        Requests { rules, .. } if !rules.is_empty() => Some("[[check]]"),
        Requests { console, .. } => console.as_ref().map(|_| "[console]"),
    };
    table.map(|table| {
        format!("`ratelimit serve` refuses this file, because {table} needs a table [serve] with `http` or `grpc`")
    })
}

/// Only its own tokens can change the rules of a server, unless a fleet shares them.
fn without_caller(requests: &Requests) -> Option<String> {
    let is_shared = requests.fleet.as_ref().is_some_and(|fleet| matches!(fleet.engine, Place::Server(_)));
    let mut scopes = requests.tokens.iter().flat_map(|token| &token.scopes);
    let mut of_users = requests.users.iter().flat_map(|user| &user.scopes);
    let is_without = !is_shared && !scopes.any(changes_rules) && !of_users.any(changes_rules);
    (requests.store.is_some() && is_without).then(|| {
        "no caller can change rules: `rules` in [serve] needs a [[token]] with a scope such as \"rules:*\"".to_owned()
    })
}

fn without_store(requests: &Requests) -> impl Iterator<Item = String> {
    let tokens = requests.tokens.iter().filter(|_| requests.store.is_none());
    tokens.filter_map(|token| {
        let scope = token.scopes.iter().find(|scope| changes_rules(scope))?;
        Some(format!("the token {} cannot change rules: its scope {scope} needs `rules` in [serve]", token.name))
    })
}

fn changes_rules(scope: &Scope) -> bool {
    matches!(scope, Scope::Rules(_))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use ratelimit_daemon::config::parse;

    use super::*;
    use crate::cli::daemon::warnings as of_config;

    const SERVE: &str = "[serve]\nhttp = \"unix:/run/check.sock\"\n";
    const CHECK: &str = "[[check]]\nname = \"a\"\nlimits = \"3/m\"\n";
    const ENGINE: &str = "[fleet]\nengine = \"redis://127.0.0.1\"\n";

    fn warnings(text: &str, second: u64) -> Vec<String> {
        let config = parse(text, REQUEST_TABLES).unwrap();
        let mut all = of_config::of(&config, UNIX_EPOCH + Duration::from_secs(second));
        all.extend(super::warnings(&requests::parse(text).unwrap()));
        all
    }

    fn token(scope: &str) -> String {
        format!("[[token]]\nname = \"team\"\nsha256 = \"{}\"\nscope = [\"check\", \"{scope}\"]\n", "0a".repeat(32))
    }

    #[test]
    fn rules_whose_end_is_over_are_named() {
        let rule = |number: u64| {
            format!("[[rule]]\nsource = \"10.0.0.{number}\"\npolicy = \"deny\"\nuntil = 1970-01-01T00:00:0{number}Z\n")
        };
        let text: String = (1..=7).map(rule).collect();
        assert_eq!(warnings(&text, 0), [""; 0]);
        assert_eq!(warnings(&text, 1), ["`until` is over for 1 rule, without effect: 10.0.0.1"]);
        let named = "10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5";
        assert_eq!(warnings(&text, 5), [format!("`until` is over for 5 rules, without effect: {named}")]);
        assert_eq!(warnings(&text, 9), [format!("`until` is over for 7 rules, without effect: {named} and 2 more")]);
    }

    #[test]
    fn rules_for_requests_without_a_server_get_a_warning() {
        let expected =
            "`ratelimit serve` refuses this file, because [[check]] needs a table [serve] with `http` or `grpc`";
        assert_eq!(warnings(CHECK, 0), [expected]);
        assert_eq!(warnings(&format!("{SERVE}{CHECK}"), 0), [""; 0]);
        let console = format!("[console]\nlisten = \"127.0.0.1:8090\"\n{}", token("rules:read"));
        assert_eq!(warnings(&console, 0), [expected.replace("[[check]]", "[console]")]);
        assert_eq!(warnings(&format!("{SERVE}{CHECK}{console}"), 0), [""; 0]);
    }

    #[test]
    fn a_group_that_this_host_does_not_have_gets_a_warning() {
        let console = format!("{SERVE}{CHECK}{}[console]\nlisten = \"unix:/run/console\"", token("rules:read"));
        for (table, text) in [
            ("stops", "[stops]\nsocket = \"/run/stops\""),
            ("view", "[view]\nsocket = \"/run/view\""),
            ("console", &console),
        ] {
            let of = |group: &str| warnings(&format!("{text}\ngroup = \"{group}\"\n"), 0);
            let expected = "there is no group no:such:group in /etc/group: create it, or write its number";
            assert_eq!(of("no:such:group"), [format!("{table}: {expected}")]);
            assert_eq!(of("4711"), [""; 0]);
        }
    }

    #[test]
    fn scopes_that_change_rules_and_the_file_of_these_rules_need_each_other() {
        let with_store = format!("{SERVE}rules = \"/var/lib/rules.toml\"\n{CHECK}");
        let without = format!("{SERVE}{CHECK}");
        let no_caller =
            "no caller can change rules: `rules` in [serve] needs a [[token]] with a scope such as \"rules:*\"";
        assert_eq!(warnings(&with_store, 0), [no_caller]);
        assert_eq!(warnings(&format!("{with_store}{}", token("rules:read")), 0), [no_caller]);
        assert_eq!(warnings(&format!("{with_store}{}", token("rules:team-a-*")), 0), [""; 0]);
        // Tokens of other servers change them.
        assert_eq!(warnings(&format!("{with_store}{ENGINE}"), 0), [""; 0]);
        let no_store = "the token team cannot change rules: its scope rules:team-a-* needs `rules` in [serve]";
        assert_eq!(warnings(&format!("{without}{}", token("rules:team-a-*")), 0), [no_store]);
        // Rules of the file can be read.
        assert_eq!(warnings(&format!("{without}{}", token("rules:read")), 0), [""; 0]);
    }
}
