//! What a host knows of its fleet: the daemon tells it to commands and in metrics, and hosts tell it to each other.

use std::net::IpAddr;

use ratelimit_base::{certificate_end::CertificateEnd, text::excerpt::excerpt};
use serde::{Deserialize, Serialize};

/// The most bytes that a host may say about itself.
const SAYS: usize = 1_024;

/// What a host knows of its fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Where the engine is.
    pub engine: String,
    /// Which of several servers is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
    /// Whether it answers.
    #[serde(rename = "up")]
    pub is_up: bool,
    /// Seconds since that began.
    pub since_seconds: f64,
    /// What kept it from answering last.
    pub error: Option<String>,
    /// Seconds from a report to its answer, the last one.
    pub latency_seconds: Option<f64>,
    /// The engine's rule by which it forgets keys if its memory is full. None if it does not.
    pub evicts: Option<String>,
    /// Seconds between two reports.
    pub period_seconds: f64,
    /// Id of this host.
    pub id: String,
    /// Number of hosts.
    pub hosts: usize,
    /// The first of them.
    pub members: Vec<Member>,
    /// Sources that this host reports.
    pub reported: usize,
    /// Those that have a share of their limit.
    pub shared: usize,
    /// Reports that the engine has answered.
    pub reports: u64,
    /// Calls that have failed.
    pub failures: u64,
    /// The other hosts, if there is no server.
    #[serde(default)]
    pub gossip: Option<Places>,
    /// When certificates of the file end.
    #[serde(default)]
    pub certificates: Vec<CertificateEnd>,
    /// The busiest of the reported sources.
    pub sources: Vec<SharedSource>,
    /// What hosts tell each other of sources that they deny. None if this host neither tells nor accepts it.
    #[serde(default)]
    pub denies: Option<Denies>,
    /// The shared rules. None if this host does not accept them.
    #[serde(default)]
    pub rules: Option<SharedRules>,
}

/// The shared rules of the fleet on this host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedRules {
    /// The newest version that this host knows, 0 if there is none.
    pub version: u64,
    /// The version in force. None if there is none.
    pub in_force: Option<u64>,
    /// Why the newest version is not in force.
    pub refused: Option<String>,
    /// What else is wrong.
    pub problem: Option<String>,
}

/// What hosts tell each other of sources that they deny.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Denies {
    /// Sources that this host has told of.
    pub told: usize,
    /// Sources that this host denies because others do.
    pub in_force: usize,
    /// Sources that others have told of and that find no room here, since the start.
    pub left_out: u64,
    /// What is wrong.
    pub problem: Option<String>,
    /// The sources of other hosts that end last.
    pub sources: Vec<DeniedSource>,
}

/// A source that another host denies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedSource {
    /// The source.
    pub source: String,
    /// The name of the host.
    pub host: String,
    /// Seconds until that ends. The host can prolong it.
    pub left_seconds: u64,
}

/// A source that shares a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedSource {
    /// The source.
    pub source: String,
    /// Its service, or `any`.
    pub service: String,
    /// Packets (or bytes) per second of its limit.
    pub limit_per_second: f64,
    /// Packets (or bytes) per second that it is offered here.
    pub offered_per_second: f64,
    /// Part of the limit that it gets here. None if it needs no share.
    pub share: Option<f64>,
}

impl Status {
    /// Returns the hosts whose default limit is another one than this host's. They share no record with it.
    pub fn others(&self) -> impl Iterator<Item = &Member> {
        let own = self.members.iter().find(|member| member.id == self.id).map(|member| &member.about.limit);
        let differs = move |member: &&Member| own.is_some_and(|own| *own != member.about.limit && !own.is_empty());
        self.members.iter().filter(move |member| differs(member) && !member.about.limit.is_empty())
    }
}

/// What a host says about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Version of the product.
    pub version: String,
    /// Its weight.
    pub weight: f64,
    /// The limit of sources without a rule.
    pub limit: String,
    /// The version of the shared rules that is in force there. None if there is none.
    #[serde(default)]
    pub rules: Option<u64>,
    /// Why a newer version is not.
    #[serde(default)]
    pub refused: Option<String>,
}

impl About {
    /// Reads what a host has written. A host that says something else than a host of this version has no name.
    #[must_use]
    pub fn read(says: &str) -> Self {
        let about: Self =
            if says.len() > SAYS { Self::default() } else { serde_json::from_str(says).unwrap_or_default() };
        about.escaped()
    }

    /// Returns it without what would control a terminal.
    #[must_use]
    pub fn escaped(self) -> Self {
        let [name, version, limit] = [&self.name, &self.version, &self.limit].map(|text| excerpt(text));
        let refused = self.refused.as_deref().map(excerpt);
        Self { name, version, limit, refused, ..self }
    }
}

/// A host of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its id, another one for each start of a daemon.
    pub id: String,
    /// Seconds since the engine has heard of it.
    pub silent_seconds: f64,
    /// What it says about itself.
    #[serde(flatten)]
    pub about: About,
}

impl Member {
    /// Returns its name, or its id if it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.about.name.is_empty() { &self.id } else { &self.about.name }
    }
}

/// Where this host listens, and where the others are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The UDP port of this host.
    pub port: u16,
    /// Their addresses, as far as they are known.
    pub peers: Vec<IpAddr>,
}

/// A version of the rules. Version 0 has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its number.
    pub version: u64,
    /// The rules.
    pub text: String,
}

/// A version in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// Its number.
    pub version: u64,
    /// When it was written, in milliseconds since 1970.
    pub at_milliseconds: u64,
    /// Who has written it.
    pub who: String,
    /// Why.
    pub why: String,
    /// The rules. None if they are too large to be told.
    #[serde(default)]
    pub text: Option<String>,
}
