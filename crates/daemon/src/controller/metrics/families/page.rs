//! Metric families as text or JSON. The text format is version 0.0.4 of Prometheus, which its server, the textfile
//! collector and most other agents understand.

use std::fmt::Write as _;

use serde::{Serialize, Serializer, ser::SerializeMap as _};

/// All families of one reading.
#[derive(Debug, Default, Serialize)]
pub(in crate::controller::metrics) struct Page {
    families: Vec<Family>,
    /// Why some families are missing.
    problem: Option<String>,
}

/// A metric: numbers of the same meaning with different labels.
#[derive(Debug, Serialize)]
pub(in crate::controller::metrics) struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: Vec<Sample>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Counter,
    Gauge,
}

#[derive(Debug, Serialize)]
struct Sample {
    labels: Labels,
    value: Number,
}

#[derive(Debug)]
struct Labels(Vec<(&'static str, String)>);

/// A value, which is a whole number if possible.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub(in crate::controller::metrics) enum Number {
    /// A number of packets, bytes or other things.
    Whole(u64),
    /// Seconds.
    Real(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<bool> for Number {
    fn from(is_so: bool) -> Self {
        Self::Whole(u64::from(is_so))
    }
}

impl Family {
    /// Returns a counter, which only grows until the instance is created again. Its name ends in `_total`.
    pub(in crate::controller::metrics) fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, help, samples: Vec::new() }
    }

    /// Returns a gauge, which has the current value.
    pub(in crate::controller::metrics) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, help, samples: Vec::new() }
    }

    /// Adds a number with these labels.
    pub(in crate::controller::metrics) fn add<const N: usize>(
        &mut self,
        labels: [(&'static str, &str); N],
        value: impl Into<Number>,
    ) {
        let labels = Labels(labels.map(|(name, value)| (name, value.to_owned())).into());
        self.samples.push(Sample { labels, value: value.into() });
    }

    /// Adds a number without labels.
    pub(in crate::controller::metrics) fn of(mut self, value: impl Into<Number>) -> Self {
        self.add([], value);
        self
    }
}

impl Page {
    /// Adds families.
    pub(in crate::controller::metrics) fn extend(&mut self, families: impl IntoIterator<Item = Family>) {
        self.families.extend(families);
    }

    /// Sets why some families are missing.
    pub(in crate::controller::metrics) fn miss(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Returns the text format. A family without numbers is omitted.
    pub(in crate::controller::metrics) fn text(&self) -> String {
        let mut text = String::new();
        for Family { name, kind, help, samples } in self.families.iter().filter(|family| !family.samples.is_empty()) {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            // Writing to a string cannot fail.
            let _ = write!(text, "# HELP {name} {}\n# TYPE {name} {kind}\n", help.replace('\\', "\\\\"));
            for Sample { labels, value } in samples {
                let _ = match value {
                    Number::Whole(value) => writeln!(text, "{name}{} {value}", labels.text()),
                    Number::Real(value) => writeln!(text, "{name}{} {value}", labels.text()),
                };
            }
        }
        if let Some(problem) = &self.problem {
            text += &format!("# {}\n", problem.replace('\n', " "));
        }
        text
    }
}

impl Labels {
    fn text(&self) -> String {
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_help_and_type_and_escaped_labels() {
        let mut page = Page::default();
        let mut family = Family::counter("a_total", "What \\ is.");
        family.add([("b", "x\"y\\z\n"), ("c", "")], 3);
        family.add([], 0.5);
        page.extend([family, Family::gauge("empty", "Left out."), Family::gauge("d", "So.").of(u64::MAX)]);
        page.miss("two\nlines".to_owned());
        assert_eq!(
            page.text(),
            "# HELP a_total What \\\\ is.\n# TYPE a_total counter\na_total{b=\"x\\\"y\\\\z\\n\",c=\"\"} 3\na_total 0.5\n\
             # HELP d So.\n# TYPE d gauge\nd 18446744073709551615\n# two lines\n"
        );
    }

    #[test]
    fn json_has_the_same() {
        let mut page = Page::default();
        let mut family = Family::counter("a_total", "What it is.");
        family.add([("b", "x")], 3);
        page.extend([family]);
        let expected = r#"{"families":[{"name":"a_total","kind":"counter","help":"What it is.","samples":[{"labels":{"b":"x"},"value":3}]}],"problem":null}"#;
        assert_eq!(serde_json::to_string(&page).unwrap(), expected);
    }
}
