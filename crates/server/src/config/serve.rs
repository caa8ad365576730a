//! The table `[serve]`: where callers ask, and what they may do.

use std::path::PathBuf;

use clap::{ValueEnum, builder::PossibleValue};
use ratelimit_base::{
    tables::{switch::Switch, table::Table},
    text::path,
};
use ratelimit_client::wire::HeaderStyle;

use super::{
    encryption::{CERTIFICATE, Encryption, KEY},
    listen::{Listen, Listens},
    name::Name,
};
use crate::usage::{UsageOptions, UsagePlace};

#[derive(Debug, clap::Args)]
pub(super) struct ServeOptions {
    #[arg(long)]
    http: Option<Listen>,
    #[arg(long)]
    grpc: Option<Listen>,
    #[arg(long)]
    metrics: Option<Listen>,
    #[arg(long)]
    attributes: Vec<Name>,
    #[arg(long)]
    tls_cert: Option<PathBuf>,
    #[arg(long)]
    tls_key: Option<PathBuf>,
    #[arg(long)]
    rules: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "ratelimit")]
    headers: HeaderStyleName,
    #[arg(long, value_enum, default_value = "on")]
    merge_paths: Switch,
    #[arg(long, value_parser = path::absolute)]
    stops: Option<PathBuf>,
    #[command(flatten)]
    usage: UsageOptions,
}

/// The styles of headers by their names in a file.
#[derive(Debug, Clone, Copy)]
struct HeaderStyleName(HeaderStyle);

impl ValueEnum for HeaderStyleName {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(HeaderStyle::RateLimit), Self(HeaderStyle::XRateLimit), Self(HeaderStyle::None)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self.0 {
            HeaderStyle::RateLimit => "ratelimit",
            HeaderStyle::XRateLimit => "x-ratelimit",
            HeaderStyle::None => "none",
        }))
    }
}

/// What the table says.
#[derive(Debug, Default)]
pub(super) struct Serve {
    pub(super) listens: Listens,
    pub(super) encryption: Option<Encryption>,
    /// Attributes besides those that every file may use.
    pub(super) attributes: Vec<String>,
    pub(super) store: Option<PathBuf>,
    pub(super) headers: HeaderStyle,
    pub(super) merges_paths: bool,
    pub(super) usage: Option<UsagePlace>,
    /// The socket of the daemon that stops clients.
    pub(super) stops: Option<PathBuf>,
}

/// Returns what the options of the table say. Adds a problem if they leave the rules open to other machines.
pub(super) fn checked(table: &Table<'_>, options: ServeOptions, has_token: bool) -> Serve {
    let wrong = |key: &str, message: String| {
        if let Some(value) = table.get(key) {
            value.wrong(message);
        }
    };
    let ServeOptions { http, grpc, metrics, attributes, tls_cert, tls_key, rules, headers, merge_paths, stops, usage } =
        options;
    let HeaderStyleName(headers) = headers;
    let attributes = attributes.into_iter().map(|Name(name)| name).collect();
    let encryption = match (tls_cert, tls_key) {
        (Some(certificate), Some(key)) => Some(Encryption { certificate, key }),
        (None, None) => None,
        (certificate, _) => {
            let (key, message) = match certificate {
                Some(_) => (CERTIFICATE, format!("a certificate needs its key: add {KEY}")),
                None => (KEY, format!("a key needs its certificate: add {CERTIFICATE}")),
            };
            wrong(key, message);
            None
        }
    };
    // One of both keys has its own problem.
    let has_certificate = table.get(CERTIFICATE).is_some() || table.get(KEY).is_some();
    let all = [("http", &http), ("grpc", &grpc), ("metrics", &metrics)];
    for (key, _) in all.into_iter().filter(|(_, listen)| listen.as_ref().is_some_and(Listen::is_beyond_host)) {
        if let Some(problem) = open_to_others(has_certificate, has_token) {
            wrong(key, problem);
        }
    }
    let overlap = |one: &Option<Listen>, other: &Option<Listen>| {
        one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one.overlaps(other))
    };
    if overlap(&grpc, &http) {
        wrong("grpc", "`http` has this address: choose another one, or remove this key".to_owned());
    }
    if overlap(&metrics, &http) || overlap(&metrics, &grpc) {
        wrong("metrics", "callers ask at this address: choose another one, or remove this key".to_owned());
    }
    if rules.as_ref().is_some_and(|path| !path.is_absolute()) {
        wrong("rules", "expected an absolute path".to_owned());
    }
    let (listens, usage) = (Listens { http, grpc, metrics }, usage.place());
    let merges_paths = merge_paths == Switch::On;
    Serve { listens, encryption, attributes, store: rules, headers, merges_paths, usage, stops }
}

/// Returns what an address that other machines can reach lacks.
pub(super) fn open_to_others(has_certificate: bool, has_token: bool) -> Option<String> {
    let certificate = (!has_certificate, format!("{CERTIFICATE} and {KEY}"));
    let missing = [certificate, (!has_token, "a table [[token]]".to_owned())];
    let missing: Vec<_> = missing.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| what).collect();
    (!missing.is_empty()).then(|| format!("other machines can reach this address: add {}", missing.join(", and ")))
}
