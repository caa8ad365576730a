//! What a fleet leaves the source here, in the answer.

use ratelimit_dataplane::readings::shares::Shares;
use serde::Serialize;

/// What a fleet leaves the source of its limit on this host.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// Part of the limit. Null if the whole limit applies.
    share: Option<f64>,
    /// Number of hosts that divide the burst of a new source. Null if each gives it the whole burst.
    burst_divided_among: Option<u64>,
}

impl Row {
    pub(super) fn of(Shares { share, hosts }: Shares) -> Self {
        Self { share, burst_divided_among: hosts }
    }

    pub(super) fn text(&self) -> String {
        let share = match self.share {
            Some(share) => format!("{:.1} % of the limit on this host now", 100.0 * share),
            None => "no share now, so the whole limit applies on this host".to_owned(),
        };
        let burst = self.burst_divided_among.map_or_else(String::new, |hosts| {
            format!("; a source that is new here begins with 1/{hosts} of the burst of the default limit")
        });
        format!("{share}{burst}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_and_a_divided_burst_are_told() {
        let text = |share, hosts| Row::of(Shares { share, hosts }).text();
        assert_eq!(text(Some(0.25), None), "25.0 % of the limit on this host now");
        let both = "no share now, so the whole limit applies on this host; \
                    a source that is new here begins with 1/3 of the burst of the default limit";
        assert_eq!(text(None, Some(3)), both);
    }
}
