//! What a reload has changed in the table `[stops]`.

use ratelimit_base::text::prefix::Prefix;
use ratelimit_dataplane::program::values::Difference;

use crate::config::daemon::stops::Stops;

/// The most prefixes that a message names.
const SHOWN: usize = 5;

/// Returns how a table differs from the one before.
pub(super) fn changes(before: Option<&Stops>, after: Option<&Stops>) -> Vec<Difference> {
    let values = |name: &str, text: &dyn Fn(&Stops) -> String| {
        let [before, after] = [before, after].map(|stops| stops.map_or_else(|| "none".to_owned(), text));
        difference(name, before, after)
    };
    let group = |stops: &Stops| stops.group.clone().unwrap_or_else(|| "the group of the daemon".to_owned());
    let mut changes = vec![
        values("stops socket", &|stops| stops.socket.display().to_string()),
        values("stops group", &group),
        values("stops mode", &|stops| stops.mode.name().to_owned()),
    ];
    let [old, new] = [before, after].map(|stops| stops.map_or(&[][..], |stops| &stops.trusted_proxies));
    if old != new {
        changes.push(difference("stops trusted-proxies", prefixes(old, new), prefixes(new, old)));
    }
    changes.retain(|change| change.before != change.after);
    changes
}

fn difference(name: &str, before: String, after: String) -> Difference {
    Difference { name: name.to_owned(), before, after, is_omitted: false }
}

/// Returns the number of these prefixes, and the first of those that the others lack.
fn prefixes(these: &[Prefix], others: &[Prefix]) -> String {
    let own: Vec<String> = these.iter().filter(|prefix| !others.contains(prefix)).map(Prefix::to_string).collect();
    let shown = own.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let more = own.len().saturating_sub(SHOWN);
    match (these.len(), own.len(), more) {
        (0, ..) => "none".to_owned(),
        (all, 0, _) => format!("{all}"),
        (all, _, 0) => format!("{all} with {shown}"),
        (all, ..) => format!("{all} with {shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::daemon::stops::Mode;

    fn stops(mode: Mode, proxies: &[&str]) -> Stops {
        Stops {
            socket: "/run/a".into(),
            group: None,
            mode,
            trusted_proxies: proxies.iter().map(|prefix| prefix.parse().unwrap()).collect(),
        }
    }

    fn texts(before: Option<&Stops>, after: Option<&Stops>) -> Vec<String> {
        changes(before, after).iter().map(Difference::to_string).collect()
    }

    #[test]
    fn each_changed_key_is_named_with_both_values() {
        let shadow = stops(Mode::Shadow, &["192.0.2.1"]);
        assert!(texts(Some(&shadow), Some(&shadow)).is_empty() && texts(None, None).is_empty());
        let on = Stops { group: Some("web".to_owned()), ..stops(Mode::On, &["192.0.2.1"]) };
        let both = ["stops group: the group of the daemon, now web", "stops mode: shadow, now on"];
        assert_eq!(texts(Some(&shadow), Some(&on)), both);
        let gone = [
            "stops socket: /run/a, now none",
            "stops group: the group of the daemon, now none",
            "stops mode: shadow, now none",
            "stops trusted-proxies: 1 with 192.0.2.1, now none",
        ];
        assert_eq!(texts(Some(&shadow), None), gone);
    }

    #[test]
    fn only_few_proxies_are_named() {
        let old = stops(Mode::On, &["192.0.2.1", "192.0.2.2"]);
        let new = stops(Mode::On, &["192.0.2.1", "192.0.2.3"]);
        let change = "stops trusted-proxies: 2 with 192.0.2.2, now 2 with 192.0.2.3";
        assert_eq!(texts(Some(&old), Some(&new)), [change]);
        let many: Vec<String> = (0..8).map(|number| format!("198.51.100.{number}")).collect();
        let many = stops(Mode::On, &many.iter().map(String::as_str).collect::<Vec<_>>());
        let change = &texts(Some(&stops(Mode::On, &[])), Some(&many))[0];
        assert!(change.starts_with("stops trusted-proxies: none, now 8 with 198.51.100.0, "), "{change}");
        assert!(change.ends_with(", 198.51.100.4 and 3 more"), "{change}");
        let fewer = Stops { trusted_proxies: many.trusted_proxies[1..].to_vec(), ..many.clone() };
        assert_eq!(texts(Some(&many), Some(&fewer)), ["stops trusted-proxies: 8 with 198.51.100.0, now 7"]);
    }
}
