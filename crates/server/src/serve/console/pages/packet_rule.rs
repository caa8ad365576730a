//! One rule for packets: what it does, its last change in the console, and a form to change it.

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};
use ratelimit_protocol::view::{Answer, LastChange, Place, Question, RuleState, Terms};

use crate::serve::console::{
    parts::{
        packet_fields::{hidden, hidden_place, inputs, place, place_inputs},
        packet_page::{denied, refused, ways},
        packet_preview::difference,
        page::{answer, csrf, moment, page, problem},
    },
    places::Work,
    state::{Call, Console},
    visit::Visitor,
};

/// Shows a rule. Without a name, shows the form of a new one.
pub(in crate::serve::console) async fn rule(console: &Console, call: &Call) -> Response {
    let visitor = &call.visitor;
    let Some(packets) = console.packets.as_ref().filter(|_| visitor.changes_packets) else { return denied(visitor) };
    let place = match place(&call.query) {
        Ok(place) if place.sources.is_empty() => {
            return new_rule(visitor, StatusCode::OK, None, &place, &Terms::default());
        }
        Ok(place) => place,
        Err(text) => return problem(Some(visitor), StatusCode::BAD_REQUEST, &text),
    };
    let _place = match console.place(Work::Read, visitor).await {
        Ok(place) => place,
        Err(answer) => return answer,
    };
    match packets.ask(&Question::Rule(place.clone())).await {
        Ok(Answer::Rule(state)) => {
            let content = content(visitor, &place, &state, call.query.number("done"));
            answer(StatusCode::OK, page(Some(visitor), &state.packets, false, &content))
        }
        other => refused(visitor, other),
    }
}

/// Shows the form of a new rule, with what is wrong.
pub(super) fn new_rule(
    visitor: &Visitor,
    status: StatusCode,
    wrong: Option<&str>,
    place: &Place,
    terms: &Terms,
) -> Response {
    let content = html! {
        (ways())
        @if let Some(text) = wrong { section class="problem" role="alert" { (text) } }
        section {
            form method="post" action="/console/packets/preview" {
                (csrf(visitor)) (place_inputs(place)) (inputs(terms)) button { "Preview" }
            }
        }
    };
    answer(status, page(Some(visitor), "Rule for packets", false, &content))
}

fn content(visitor: &Visitor, place: &Place, state: &RuleState, done: Option<u64>) -> Markup {
    html! {
        (ways())
        @if state.last.as_ref().is_some_and(|last| Some(last.number) == done) {
            section class="note" role="status" { "The change is in force. It can be undone below." }
        }
        section {
            h2 { "Rule" }
            @match &state.words {
                Some(words) => p { code { (words) } },
                None => p { "There is no such rule. The next wider rule applies to these packets." },
            }
            @if let Some(problem) = &state.problem { p { (problem) } }
        }
        @if let Some(last) = &state.last { (last_change(visitor, place, last)) }
        @if state.problem.is_none() {
            section {
                h2 { "Change" }
                form method="post" action="/console/packets/preview" {
                    (csrf(visitor)) (hidden_place(place))
                    (inputs(state.terms.as_ref().unwrap_or(&Terms::default())))
                    button { "Preview" }
                }
            }
            @if state.words.is_some() {
                section {
                    form method="post" action="/console/packets/preview" {
                        (csrf(visitor)) (hidden_place(place)) (hidden(None))
                        button class="danger" { "Preview the deletion" }
                    }
                }
            }
        }
    }
}

fn last_change(visitor: &Visitor, place: &Place, last: &LastChange) -> Markup {
    html! {
        section {
            h2 { "Last change in the console" }
            p class="dim" { (moment(&last.at)) " by " (last.by) ": " code { (last.what) } }
            (difference(last.before.as_deref(), last.after.as_deref()))
            form method="post" action="/console/packets/undo" {
                (csrf(visitor)) (hidden_place(place))
                input type="hidden" name="number" value=(last.number);
                button class="plain" { "Undo this change" }
            }
        }
    }
}
