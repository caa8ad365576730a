//! What the pages about packets share.

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};
use ratelimit_protocol::view::{Answer, Place, Refusal, RefusalKind};

use super::page::problem;
use crate::serve::console::visit::Visitor;

/// Returns the address of the page of a rule.
pub(in crate::serve::console) fn way_to(place: &Place) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let query = query.append_pair("sources", &place.sources).append_pair("service", &place.service).finish();
    format!("/console/packets/rule?{query}")
}

/// Returns links to the pages about packets.
pub(in crate::serve::console) fn ways() -> Markup {
    html! {
        p {
            a href="/console/packets" { "Rates and sources" } " · " a href="/console/packets/rules" { "Rules" } " · "
            a href="/console/packets/lists" { "Lists" } " · " a href="/console/packets/changes" { "Changes" }
        }
    }
}

/// Returns a problem as a part of a page.
pub(in crate::serve::console) fn trouble(text: &str) -> Markup {
    html! { section class="problem" role="alert" { (text) } }
}

/// Shows a visitor that others may change rules for packets.
pub(in crate::serve::console) fn denied(visitor: &Visitor) -> Response {
    problem(Some(visitor), StatusCode::FORBIDDEN, "Your token may not change rules for packets.")
}

/// Shows why the daemon does not do what was asked.
pub(in crate::serve::console) fn refused(visitor: &Visitor, answer: Result<Answer, String>) -> Response {
    let (status, text) = match answer {
        Ok(Answer::Refused(Refusal { kind, text })) => {
            let status = match kind {
                RefusalKind::Wrong => StatusCode::BAD_REQUEST,
                RefusalKind::Conflict => StatusCode::CONFLICT,
                RefusalKind::Forbidden => StatusCode::FORBIDDEN,
            };
            (status, text)
        }
        Ok(_) => (StatusCode::BAD_GATEWAY, "The daemon has another version.".to_owned()),
        Err(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    };
    problem(Some(visitor), status, &text)
}
