//! How visitors sign in and out.

use std::time::Instant;

use axum::{
    http::{HeaderValue, StatusCode, header::SET_COOKIE, request::Parts},
    response::Response,
};
use maud::html;

use crate::serve::{
    access::{Denied, Need},
    console::{parts::page, state::Console, visit::Form},
};

/// Shows the form, or reads it.
pub(in crate::serve::console) fn sign_in(console: &Console, head: &Parts, form: Option<&Form>) -> Response {
    let visitor = console.gate.visitor(&console.service, head);
    if visitor.is_some_and(|visitor| visitor.is_by_proxy || form.is_none()) {
        return page::see("/console");
    }
    if console.gate.of_proxy(head).is_some() {
        let text = "The proxy has signed you in with a name that may not see the console: the operator of the server can \
                    add a table [[user]] with a scope for rules or packets.";
        return page::problem(None, StatusCode::FORBIDDEN, text);
    }
    let Some(form) = form else { return answer(StatusCode::OK, None) };
    let token = form.get("token").trim();
    match console.service.of_tokens(|tokens| tokens.sign_in(token, Need::Visit)) {
        Ok(hash) => match console.gate.sessions.begin(hash, Instant::now()) {
            Some(session) => {
                // Another token takes the place of the one before.
                if let Some(before) = console.gate.session(&head.headers) {
                    console.gate.sessions.end(before);
                }
                with_cookie(page::see("/console"), console.gate.cookie(), &session)
            }
            None => page::problem(None, StatusCode::SERVICE_UNAVAILABLE, "The system has no random numbers."),
        },
        Err(denied) => {
            console.service.counts.count_denied(&denied);
            let problem = match denied {
                Denied::Scope { .. } => denied.to_string(),
                _ => "The token is unknown.".to_owned(),
            };
            answer(StatusCode::FORBIDDEN, Some(&problem))
        }
    }
}

/// Ends the session of a call.
pub(in crate::serve::console) fn sign_out(console: &Console, head: &Parts) -> Response {
    if let Some(session) = console.gate.session(&head.headers) {
        console.gate.sessions.end(session);
    }
    let (name, attributes) = console.gate.cookie();
    let mut answer = page::see("/console/sign-in");
    if let Ok(value) = HeaderValue::from_str(&format!("{name}=; Max-Age=0; {attributes}")) {
        answer.headers_mut().insert(SET_COOKIE, value);
    }
    answer
}

fn with_cookie(mut answer: Response, (name, attributes): (String, &str), session: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(&format!("{name}={session}; {attributes}")) {
        answer.headers_mut().insert(SET_COOKIE, value);
    }
    answer
}

fn answer(status: StatusCode, problem: Option<&str>) -> Response {
    let content = html! {
        @if let Some(problem) = problem { section class="problem" role="alert" { (problem) } }
        section {
            form method="post" action="/console/sign-in" {
                div class="field" {
                    label for="token" { "Token" }
                    input type="password" id="token" name="token" required autofocus autocomplete="current-password";
                    small {
                        "The operator of the server gives tokens to teams. A session ends after an hour without a click, and "
                        "after twelve hours."
                    }
                }
                button { "Sign in" }
            }
        }
    };
    page::answer(status, page::page(None, "Sign in", false, &content))
}
