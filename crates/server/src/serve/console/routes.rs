//! Which call gets which page.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{
        Method, StatusCode,
        header::{ALLOW, CONTENT_TYPE},
        request::Parts,
    },
    response::{IntoResponse as _, Response},
};
use hyper::Request;

use super::{
    pages::{change, log, overview, packet_change, packet_rule, packets, rule, rules, sign_in},
    parts::page,
    secure::secure,
    state::{Call, Console},
    visit::{Form, LIVE, is_foreign, read},
};
use crate::serve::sockets::Answers;

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/live.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Connections at a time.
pub(in crate::serve) const READERS: usize = 256;

/// What answers at the address of the pages.
pub(in crate::serve) struct Pages(pub(in crate::serve) Arc<Console>);

impl Answers for Pages {
    async fn answer(&self, call: Request<Body>) -> Response {
        let Self(console) = self;
        secure(answer(console, call).await, console.gate.is_encrypted())
    }
}

async fn answer(console: &Arc<Console>, call: Request<Body>) -> Response {
    let (head, body) = call.into_parts();
    let problem = |status, text| page::problem(None, status, text);
    let is_change = match head.method {
        Method::GET | Method::HEAD => false,
        Method::POST => true,
        _ => {
            let refused = problem(StatusCode::METHOD_NOT_ALLOWED, "A page takes only GET and POST.");
            return ([(ALLOW, "GET, HEAD, POST")], refused).into_response();
        }
    };
    let path: Vec<_> = head.uri.path().trim_matches('/').split('/').collect();
    let path = match &path[..] {
        [""] => return page::see("/console"),
        ["console", rest @ ..] => rest.to_vec(),
        _ => return problem(StatusCode::NOT_FOUND, "There is no such page."),
    };
    if let Some((kind, text)) = asset(&path).filter(|_| !is_change) {
        return ([(CONTENT_TYPE, kind)], text).into_response();
    }
    let query = Form::parse(head.uri.query().unwrap_or_default().as_bytes());
    if is_change && is_foreign(&head.headers) {
        return problem(StatusCode::FORBIDDEN, "Another site has sent this form.");
    }
    let form = match is_change {
        false => Form::default(),
        true => match read(body).await {
            Ok(form) => form,
            Err(status) => return problem(status, "The form has not arrived as a whole."),
        },
    };
    if path == ["sign-in"] {
        return sign_in::sign_in(console, &head, is_change.then_some(&form));
    }
    let Some(visitor) = console.gate.visitor(&console.service, &head) else {
        return page::see("/console/sign-in");
    };
    if is_change && !console.gate.is_own(&visitor, form.get("csrf")) {
        let text = "The form belongs to another session. Open the page again.";
        return page::problem(Some(&visitor), StatusCode::FORBIDDEN, text);
    }
    let is_live = head.headers.contains_key(LIVE);
    let call = Call { visitor, query, form, peer: head.extensions.get().copied(), is_live };
    let (path, head) = (&path[..], &head);
    if is_change { act(console, path, head, call).await } else { show(console, path, call).await }
}

fn asset(path: &[&str]) -> Option<(&'static str, &'static str)> {
    match path {
        ["style.css"] => Some(("text/css; charset=utf-8", STYLE)),
        ["live.js"] => Some(("text/javascript; charset=utf-8", SCRIPT)),
        ["icon.svg"] => Some(("image/svg+xml", ICON)),
        _ => None,
    }
}

async fn show(console: &Arc<Console>, path: &[&str], call: Call) -> Response {
    match path {
        [] => overview::overview(console, &call),
        ["rules"] => rules::rules(console, call).await,
        ["new"] => rule::new_rule(&call),
        ["rule", name] => rule::rule(console, (*name).to_owned(), call).await,
        ["log"] => log::log(console, call).await,
        ["packets", "rule"] => packet_rule::rule(console, &call).await,
        ["packets", rest @ ..] => packets::packets(console, rest, &call).await,
        _ => absent(&call),
    }
}

async fn act(console: &Arc<Console>, path: &[&str], head: &Parts, call: Call) -> Response {
    match path {
        ["new"] => change::preview(console, call.form.get("name").to_owned(), call).await,
        ["rule", name, "preview"] => change::preview(console, (*name).to_owned(), call).await,
        ["rule", name, "apply"] => change::apply(console, (*name).to_owned(), call).await,
        ["rule", name, "undo"] => change::undo(console, (*name).to_owned(), call).await,
        ["packets", "preview"] => packet_change::preview(console, &call).await,
        ["packets", "apply"] => packet_change::apply(console, &call).await,
        ["packets", "undo"] => packet_change::undo(console, &call).await,
        ["sign-out"] => sign_in::sign_out(console, head),
        _ => absent(&call),
    }
}

fn absent(call: &Call) -> Response {
    page::problem(Some(&call.visitor), StatusCode::NOT_FOUND, "There is no such page.")
}
