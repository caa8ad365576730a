//! Keys of the table `[fleet]` that say where the engine is.

use std::path::PathBuf;

use clap::ValueEnum;
use ratelimit_base::{files::secret, tables::table::Table};

use super::certificates::CertificateOptions;
use crate::{
    address::{Address, Kind},
    gossip::settings::Settings,
    way::Place,
};

/// The engine without a server.
const GOSSIP: &str = "gossip";
/// The lengths of the password of a user.
const PASSWORD: std::ops::RangeInclusive<usize> = 1..=4_096;
/// The lengths of the password of all hosts. Who has recorded their datagrams can try shorter ones.
const SECRET: std::ops::RangeInclusive<usize> = 16..=4_096;
/// Keys that only a server needs, and those that only gossip needs.
const OF_SERVERS: [&str; 6] = ["servers", "master", "user", "ca-file", "certificate-file", "key-file"];
const OF_GOSSIP: [&str; 2] = ["listen", "peers"];

/// How several servers belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Servers {
    Single,
    Cluster,
    Sentinel,
}

#[derive(Debug, clap::Args)]
pub(super) struct EngineOptions {
    #[arg(long, required = true)]
    engine: Vec<String>,
    #[arg(long, value_enum, default_value = "single")]
    servers: Servers,
    #[arg(long)]
    master: Option<String>,
    #[arg(long)]
    user: Option<String>,
    #[arg(long)]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    certificates: CertificateOptions,
    #[arg(long)]
    listen: Option<String>,
    #[arg(long)]
    peers: Vec<String>,
}

/// Reads where the engine is. Returns None if there is a problem.
pub(super) fn read(table: &Table<'_>, options: EngineOptions) -> Option<Place> {
    let wrong = |key: &str, message: String| {
        if let Some(value) = table.get(key) {
            value.wrong(message);
        }
    };
    let is_gossip = options.engine.iter().any(|engine| engine == GOSSIP);
    if is_gossip && options.engine.len() > 1 {
        wrong("engine", "gossip has no server: remove the others".to_owned());
        return None;
    }
    let (foreign, why): (&[&str], _) = if is_gossip {
        (&OF_SERVERS, "gossip has no server: remove this key")
    } else {
        (&OF_GOSSIP, "only gossip has it: set engine = \"gossip\", or remove this key")
    };
    let foreign: Vec<_> = foreign.iter().filter(|key| table.get(key).is_some()).collect();
    if !foreign.is_empty() {
        foreign.iter().for_each(|key| wrong(key, why.to_owned()));
        return None;
    }
    let lengths = if is_gossip { SECRET } else { PASSWORD };
    let password = options.password_file.as_ref().map(|path| secret::read(path, lengths)).transpose();
    let password = password.map_err(|problem| wrong("password-file", problem)).ok()?;
    if is_gossip {
        let settings = Settings::new(options.listen.as_deref(), &options.peers, password);
        return settings.map(Place::Hosts).map_err(|(key, problem)| wrong(key, problem)).ok();
    }
    if options.user.is_some() && password.is_none() {
        wrong("user", "a user needs a password: add password-file".to_owned());
        return None;
    }
    let kind = match (options.servers, options.master) {
        (Servers::Sentinel, Some(master)) => Kind::Sentinel(master),
        (Servers::Sentinel, None) => {
            wrong("servers", "sentinels know several servers: add master, the name of the one to use".to_owned());
            return None;
        }
        (_, Some(_)) => {
            wrong("master", "only sentinels know it: add servers = \"sentinel\", or remove this key".to_owned());
            return None;
        }
        (Servers::Single, None) => Kind::Single,
        (Servers::Cluster, None) => Kind::Cluster,
    };
    let engine = Address::new(&options.engine, kind, options.user, password);
    let engine = engine.map_err(|error| wrong("engine", error.to_string())).ok()?;
    let engine = options.certificates.apply(engine).map_err(|(key, problem)| wrong(key, problem)).ok()?;
    Some(Place::Server(engine))
}
