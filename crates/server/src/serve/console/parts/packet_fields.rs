//! A rule for packets as the fields of a form.

use maud::{Markup, html};
use ratelimit_protocol::view::{Kind, Place, Terms};

use crate::serve::console::visit::Form;

/// The longest text of a field, in characters.
const LONGEST: usize = 128;
/// What a rule can do, with its word in forms.
const KINDS: [(Kind, &str, &str); 3] = [
    (Kind::Limit, "limit", "limit each source"),
    (Kind::Deny, "deny", "deny: drop all packets"),
    (Kind::Allow, "allow", "allow: let all packets pass"),
];
/// What happens to packets over a limit.
const OVER_LIMIT: [(&str, &str); 3] = [
    ("drop", "drop"),
    ("reject", "reject: drop and answer"),
    ("shadow", "shadow: pass, and count what would be dropped"),
];
/// The fields of a limit, with their labels and what they take.
const FIELDS: [(&str, &str, &str); 3] = [
    ("packets", "Packets", "One or two rates, such as 100/s or 10/m,500/h. Empty: no limit of packets"),
    ("bytes", "Bytes", "A rate, such as 10MB/s. Empty: no limit of bytes"),
    ("burst", "Burst", "Packets at once. Empty: what the rate allows in its own unit of time"),
];

/// Reads the packets that a form or a query names.
pub(in crate::serve::console) fn place(form: &Form) -> Result<Place, String> {
    Ok(Place { sources: text(form, "sources")?, service: text(form, "service")? })
}

/// Reads what a form wants of a rule.
pub(in crate::serve::console) fn terms(form: &Form) -> Result<Terms, String> {
    let kind = form.get("kind");
    let kind = KINDS.iter().find(|(_, word, _)| *word == kind).ok_or("kind: expected limit, deny or allow")?;
    let over_limit = text(form, "over-limit")?;
    Ok(Terms {
        kind: kind.0,
        packets: text(form, "packets")?.replace(", ", ","),
        bytes: text(form, "bytes")?,
        burst: text(form, "burst")?,
        over_limit: if over_limit.is_empty() { "drop".to_owned() } else { over_limit },
        comment: text(form, "comment")?,
    })
}

fn text(form: &Form, name: &str) -> Result<String, String> {
    let text = form.get(name).trim();
    match text.chars().count() > LONGEST {
        true => Err(format!("{name}: expected at most {LONGEST} characters")),
        false => Ok(text.to_owned()),
    }
}

/// Returns the fields that name the packets of a new rule.
pub(in crate::serve::console) fn place_inputs(place: &Place) -> Markup {
    html! {
        (input("sources", "Sources", "A prefix or an address, or default: each source without another rule", &place.sources, true))
        (input("service", "Service", "Such as tcp/443, udp/53 or tcp-syn. Empty: all packets", &place.service, false))
    }
}

/// Returns the fields for a person to fill in.
pub(in crate::serve::console) fn inputs(terms: &Terms) -> Markup {
    let value = |name: &str| match name {
        "packets" => &terms.packets,
        "bytes" => &terms.bytes,
        _ => &terms.burst,
    };
    html! {
        div class="field" {
            label for="kind" { "What happens" }
            select id="kind" name="kind" {
                @for (kind, word, label) in KINDS { option value=(word) selected[kind == terms.kind] { (label) } }
            }
        }
        @for (name, label, help) in FIELDS { (input(name, label, help, value(name), false)) }
        div class="field" {
            label for="over-limit" { "Packets over the limit" }
            select id="over-limit" name="over-limit" {
                @for (word, label) in OVER_LIMIT { option value=(word) selected[word == terms.over_limit] { (label) } }
            }
        }
        (input("comment", "Comment", "At most 64 bytes", &terms.comment, false))
    }
}

fn input(name: &str, label: &str, help: &str, value: &str, is_required: bool) -> Markup {
    html! {
        div class="field" {
            label for=(name) { (label) }
            input type="text" id=(name) name=(name) value=(value) required[is_required] maxlength=(LONGEST)
                aria-describedby={ (name) "-help" } autocomplete="off" spellcheck="false";
            small id={ (name) "-help" } { (help) }
        }
    }
}

/// Returns the packets for the next form.
pub(in crate::serve::console) fn hidden_place(place: &Place) -> Markup {
    html! {
        input type="hidden" name="sources" value=(place.sources);
        input type="hidden" name="service" value=(place.service);
    }
}

/// Returns what a rule does for the next form. None deletes it.
pub(in crate::serve::console) fn hidden(terms: Option<&Terms>) -> Markup {
    let word = |terms: &Terms| KINDS.iter().find(|(kind, ..)| *kind == terms.kind).map_or("", |(_, word, _)| word);
    html! {
        @match terms {
            None => input type="hidden" name="delete" value="true";,
            Some(terms) => {
                input type="hidden" name="kind" value=(word(terms));
                @for (name, text) in [
                    ("packets", &terms.packets), ("bytes", &terms.bytes), ("burst", &terms.burst),
                    ("over-limit", &terms.over_limit), ("comment", &terms.comment),
                ] {
                    input type="hidden" name=(name) value=(text);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_says_what_the_next_form_says_again() {
        let first = Form::parse(b"kind=limit&packets=+10%2Fm%2C+500%2Fh&over-limit=shadow&comment=a%22%3Cb%3E&csrf=x");
        let read = terms(&first).unwrap();
        assert_eq!((read.packets.as_str(), read.comment.as_str()), ("10/m,500/h", "a\"<b>"));
        let text = hidden(Some(&read)).into_string();
        assert!(text.contains("value=\"a&quot;&lt;b&gt;\"") && text.contains("value=\"shadow\""), "{text}");
        assert_eq!(terms(&Form::parse(b"kind=deny")).unwrap().over_limit, "drop");
        for (form, expected) in
            [("kind=ban", "kind: "), (&*format!("kind=deny&comment={}", "x".repeat(129)), "comment: ")]
        {
            assert!(terms(&Form::parse(form.as_bytes())).unwrap_err().starts_with(expected), "{form}");
        }
    }
}
