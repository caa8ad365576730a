//! What a rule would have refused, in words.

use std::time::Duration;

use maud::{Markup, html};
use ratelimit_base::text::units::write_duration;

use crate::serve::{
    access::Need,
    console::visit::Visitor,
    recent::{MANY, OF_CLIENT, Replayed, Sample},
};

/// Says how many clients and requests a rule would have refused. A visitor who may read about some rules only learns nothing
/// about a given client.
pub(in crate::serve::console) fn in_words(
    visitor: &Visitor,
    rule: &str,
    replayed: &Replayed,
    sample: &Sample,
) -> String {
    let Replayed { clients, requests, hit, refused, is_about_many, .. } = replayed;
    if !is_about_many && !visitor.caller.may(Need::ReadAll) {
        return format!(
            "What {rule} would have refused needs the scope rules:read: it is about fewer than {MANY} clients, or its \
             conditions choose some."
        );
    }
    let span = span(sample.span.as_secs());
    let rule = capital(rule);
    if *clients == 0 {
        return format!("{rule} counts no request in {span}.");
    }
    format!("{rule} would have refused {hit} of {clients} clients in {span}: {refused} of {requests} requests.")
}

/// Returns a text that begins a sentence.
fn capital(text: &str) -> String {
    text.chars().take(1).flat_map(char::to_uppercase).chain(text.chars().skip(1)).collect()
}

/// Says what the figures leave out. None if they leave out nothing.
pub(in crate::serve::console) fn bounds(sample: &Sample) -> Option<String> {
    let Sample { one_of, cut, .. } = sample;
    let mut said = Vec::new();
    if *cut > 0 {
        said.push(format!(
            "Clients with more than {OF_CLIENT} requests: {cut}. The server remembers the last {OF_CLIENT} of each. A \
             rule with a larger limit could have refused more."
        ));
    }
    if *one_of > 1 {
        said.push(format!(
            "The server remembers 1 of {one_of} clients, because all did not fit. A rule that counts several of them \
             together would have refused more."
        ));
    }
    (!said.is_empty()).then(|| said.join(" "))
}

/// Returns the time of a preview in words. The daemon looks once in a minute.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        3_540.. => "the last hour".to_owned(),
        _ => format!("the last {}", write_duration(Duration::from_secs(seconds.max(1)))),
    }
}

/// Shows the clients with the most refused requests to a visitor who may read about all of them. Every caller can write a
/// rule that counts the clients of others.
pub(in crate::serve::console) fn clients(visitor: &Visitor, replayed: &Replayed) -> Markup {
    html! {
        @if visitor.caller.may(Need::ReadAll) && !replayed.worst.is_empty() {
            div class="table" tabindex="0" role="region" aria-label="Clients" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Client" } th scope="col" class="number" { "Refused" }
                            th scope="col" class="number" { "Requests" }
                        }
                    }
                    tbody {
                        @for client in &replayed.worst {
                            tr {
                                td { code { (client.name) } }
                                td class={ "number" @if client.refused > 0 { " bad" } } { (client.refused) }
                                td class="number" { (client.requests) }
                            }
                        }
                    }
                }
            }
        }
    }
}
