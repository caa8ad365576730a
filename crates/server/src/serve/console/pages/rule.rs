//! One rule: what it says and does, its last change, and a form to change it.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};

use super::log::{Logged, changes_of};
use crate::{
    config::written::Keys,
    serve::{
        access::Need,
        console::{
            parts::{
                difference::difference,
                fields::Fields,
                page::{answer, csrf, page, problem},
                plot::plot,
                preview,
            },
            places::Work,
            state::{Call, Console},
            visit::Visitor,
        },
        recent::{Replayed, Sample, chooses_clients, replay},
    },
};

/// Shows a rule. One that was deleted can be restored.
pub(in crate::serve::console) async fn rule(console: &Arc<Console>, name: String, call: Call) -> Response {
    let Call { visitor, query, is_live, .. } = call;
    if !visitor.caller.may(Need::Read(&name)) {
        return problem(Some(&visitor), StatusCode::FORBIDDEN, "Your token may not read this rule.");
    }
    if is_live {
        return live(console, &visitor, &name);
    }
    let wanted = name.clone();
    let found = console
        .work(Work::Read, &visitor, move |console| (changes_of(&console.book, &wanted, 1), replayed(console, &wanted)));
    let (changes, replayed) = match found.await {
        Ok(both) => both,
        Err(answer) => return answer,
    };
    let in_force = console.book.in_force();
    let kept = in_force.get(&name);
    let (last, unread) = match changes {
        Ok(changes) => (changes.into_iter().next(), None),
        Err(error) => (None, Some(error.to_string())),
    };
    if kept.is_none() && last.is_none() {
        return match unread {
            Some(text) => problem(Some(&visitor), StatusCode::SERVICE_UNAVAILABLE, &text),
            None => problem(Some(&visitor), StatusCode::NOT_FOUND, "There is no such rule."),
        };
    }
    let (version, keys) = kept.unzip();
    let version = version.flatten();
    let may_change = visitor.caller.may(Need::Change(&name)) && !in_force.is_of_operator(&name);
    let content = html! {
        @if let Some(done) = query.number("done") {
            @if version == Some(done) {
                section class="note" role="status" { "Version " (done) " is in force. The change can be undone below." }
            } @else if version.is_none() && last.as_ref().is_some_and(|last| last.version == done) {
                section class="note" role="status" { "The rule is deleted. The change can be undone below." }
            }
        }
        @match keys {
            Some(keys) => (what(keys, version)),
            None => section { p { "This rule is not in force: it was deleted." } }
        }
        @if keys.is_some() { (requests(console, &visitor, &name)) }
        @if let Some((replayed, sample)) = &replayed {
            section {
                h2 { "Clients of the last hour" }
                p { (preview::in_words(&visitor, "this rule", replayed, sample)) }
                @if let Some(bounds) = preview::bounds(sample) { p class="dim" { (bounds) } }
                (preview::clients(&visitor, replayed))
            }
        }
        @if let Some(text) = unread { section class="problem" role="alert" { (text) } }
        @if let Some(last) = &last { (last_change(&visitor, last, version, may_change)) }
        @if let Some(keys) = keys { (changed(&visitor, &name, version, keys, may_change)) }
    };
    answer(StatusCode::OK, page(Some(&visitor), &name, keys.is_some(), &content))
}

/// Shows what changes by itself. The log and a replay would be too much work for each tab and every few seconds.
fn live(console: &Console, visitor: &Visitor, name: &str) -> Response {
    if console.book.in_force().get(name).is_none() {
        return problem(Some(visitor), StatusCode::NOT_FOUND, "This rule is not in force.");
    }
    answer(StatusCode::OK, page(Some(visitor), name, true, &requests(console, visitor, name)))
}

fn requests(console: &Console, visitor: &Visitor, name: &str) -> Markup {
    // Every caller can write a rule that counts the clients of others.
    let is_hidden = console.book.in_force().rule(name).is_some_and(chooses_clients);
    html! {
        section id="requests" data-live {
            h2 { "Requests" }
            @if is_hidden && !visitor.caller.may(Need::ReadAll) {
                p class="dim" { "The conditions choose clients, so their requests need the scope rules:read." }
            } @else {
                (plot(&console.history.of_rule(name), "Requests", ["admitted", "refused"]))
            }
        }
    }
}

/// Asks the rule in force with this name about the requests of the last hour.
pub(super) fn replayed(console: &Console, name: &str) -> Option<(Replayed, Sample)> {
    let in_force = console.book.in_force();
    let sample = console.service.recent.as_ref()?.sample(console.service.now());
    Some((replay(in_force.rule(name)?, &sample), sample))
}

/// Shows the form of a new rule.
pub(in crate::serve::console) fn new_rule(call: &Call) -> Response {
    let content = html! {
        section {
            form method="post" action="/console/new" {
                (csrf(&call.visitor))
                div class="field" {
                    label for="name" { "Name" }
                    input type="text" id="name" name="name" required maxlength="64" autocomplete="off" spellcheck="false"
                        aria-describedby="name-help";
                    small id="name-help" { "Small letters, digits, -, _ and ., as your token allows" }
                }
                (Fields::default().inputs())
                button { "Preview" }
            }
        }
    };
    answer(StatusCode::OK, page(Some(&call.visitor), "New rule", false, &content))
}

fn what(keys: &Keys, version: Option<u64>) -> Markup {
    html! {
        section {
            h2 { "Rule" }
            div class="table" tabindex="0" role="region" aria-label="Keys" {
                table {
                    tbody {
                        @for (key, value) in keys {
                            tr { th scope="row" { (key) } td { code { (crate::config::written::in_line(value)) } } }
                        }
                    }
                }
            }
            p class="dim" {
                @match version {
                    Some(version) => { "Version " (version) ", kept by the server." }
                    None => "This rule is in the file of the server. Its operator changes it there."
                }
            }
        }
    }
}

fn last_change(visitor: &Visitor, last: &Logged, version: Option<u64>, may_change: bool) -> Markup {
    // Another change may have followed that the log does not have.
    let is_latest = if last.new.is_some() { version == Some(last.version) } else { version.is_none() };
    html! {
        section {
            h2 { "Last change: " (last.action) ", version " (last.version) (last.undo()) }
            p class="dim" { (last.who) }
            (difference(last.old.as_ref(), last.new.as_ref()))
            @if may_change && is_latest && last.action != "undone" {
                form method="post" action={ "/console/rule/" (last.name) "/undo" } {
                    (csrf(visitor))
                    input type="hidden" name="version" value=(last.version);
                    button class="plain" { "Undo this change" }
                }
            }
        }
    }
}

fn changed(visitor: &Visitor, name: &str, version: Option<u64>, keys: &Keys, may_change: bool) -> Markup {
    let action = format!("/console/rule/{name}/preview");
    let hidden = html! { (csrf(visitor)) input type="hidden" name="version" value=[version]; };
    html! {
        @if may_change {
            section {
                h2 { "Change" }
                @match Fields::of_keys(keys) {
                    Some(fields) => {
                        form method="post" action=(action) { (hidden) (fields.inputs()) button { "Preview" } }
                    }
                    None => p { "This form cannot show all values of the rule: use " code { "ratelimit rules set" } "." }
                }
            }
            section {
                form method="post" action=(action) {
                    (hidden)
                    input type="hidden" name="delete" value="true";
                    button class="danger" { "Preview the deletion" }
                }
            }
        }
    }
}
