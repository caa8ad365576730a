//! Questions of callers, within bounds.

mod json;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use crate::check::ADDRESS;

/// The time in which a call must arrive and be answered.
pub(super) const TIME: Duration = Duration::from_secs(5);
/// The most attributes of a request.
const ATTRIBUTES: usize = 32;
/// The most requests of a batch.
const BATCH: usize = 100;

/// One request to decide.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) attributes: Attributes,
    pub(super) cost: u32,
}

/// What a caller says about a request.
pub(super) type Attributes = BTreeMap<String, String>;

/// Several requests, which are all allowed or none.
#[derive(Debug)]
pub(super) struct Batch {
    requests: Vec<Question>,
}

impl Question {
    /// Returns an attribute as rules have it: a host in small letters without port, and a path without its query.
    pub(super) fn of_proxy(name: &str, value: String) -> String {
        match name {
            "host" => {
                let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
                let host =
                    value.rsplit_once(':').filter(|(_, end)| is_port(end)).map_or(value.as_str(), |(host, _)| host);
                host.trim_end_matches('.').to_ascii_lowercase()
            }
            "path" => value.split('?').next().unwrap_or_default().to_owned(),
            _ => value,
        }
    }

    /// Returns the question if it is within the bounds.
    pub(super) fn within_bounds(self) -> Result<Self, String> {
        if self.attributes.len() > ATTRIBUTES {
            return Err(format!("attributes: at most {ATTRIBUTES} are possible"));
        }
        // As text, it would be another client with each port.
        if self.attributes.get(ADDRESS).is_some_and(|ip| ip.parse::<IpAddr>().is_err()) {
            return Err(format!("{ADDRESS}: expected an address without a port, such as 192.0.2.1 or 2001:db8::1"));
        }
        Ok(self)
    }
}

impl Batch {
    /// Returns the batch of these requests.
    pub(super) fn of(requests: Vec<Question>) -> Self {
        Self { requests }
    }

    /// Returns attributes and cost of each request, if all are within the bounds.
    pub(super) fn within_bounds(self) -> Result<Vec<(Attributes, u32)>, String> {
        if !(1..=BATCH).contains(&self.requests.len()) {
            return Err(format!("requests: expected 1 to {BATCH} of them"));
        }
        let pair = |(number, question): (usize, Question)| {
            let within = question.within_bounds().map_err(|problem| format!("request {number}: {problem}"));
            within.map(|Question { attributes, cost }| (attributes, cost))
        };
        (1..).zip(self.requests).map(pair).collect()
    }
}
