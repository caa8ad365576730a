//! What all pages share.

use axum::{
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, LOCATION},
    },
    response::{IntoResponse as _, Response},
};
use maud::{DOCTYPE, Markup, html};

use crate::serve::console::visit::{AGAIN, Visitor};

/// The rows of a table on one page.
pub(in crate::serve::console) const ROWS: usize = ratelimit_protocol::view::ROWS;

const PARTS: [(&str, &str); 4] =
    [("Overview", "/console"), ("Rules", "/console/rules"), ("Changes", "/console/log"), (PACKETS, "/console/packets")];
/// The part that only some visitors see.
const PACKETS: &str = "Packets";

/// Returns a page. `is_live` tells that it has parts that change by themselves.
pub(in crate::serve::console) fn page(
    visitor: Option<&Visitor>,
    title: &str,
    is_live: bool,
    content: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – ratelimit" }
                link rel="stylesheet" href="/console/style.css";
                link rel="icon" href="/console/icon.svg";
                @if is_live {
                    script src="/console/live.js" defer {}
                    noscript { meta http-equiv="refresh" content={ "10; url=?" (AGAIN) }; }
                }
            }
            body {
                a class="skip" href="#content" { "Skip to the content" }
                header {
                    nav aria-label="Pages" {
                        @if let Some(visitor) = visitor {
                            @for (name, path) in PARTS.iter().filter(|(name, _)| *name != PACKETS || visitor.sees_packets) {
                                a href=(path) aria-current=[(*name == title).then_some("page")] { (name) }
                            }
                            div class="who" {
                                span { (visitor.caller.name()) }
                                @if !visitor.is_by_proxy {
                                    form method="post" action="/console/sign-out" {
                                        (csrf(visitor))
                                        button class="plain" { "Sign out" }
                                    }
                                }
                            }
                        } @else {
                            strong { "ratelimit" }
                        }
                    }
                }
                main id="content" { h1 { (title) } (content) }
            }
        }
    }
}

/// Returns the field that each form has.
pub(in crate::serve::console) fn csrf(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="csrf" value=(visitor.csrf); }
}

/// Returns a page as an answer.
pub(in crate::serve::console) fn answer(status: StatusCode, page: Markup) -> Response {
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], page.into_string()).into_response()
}

/// Returns a page with a problem.
pub(in crate::serve::console) fn problem(visitor: Option<&Visitor>, status: StatusCode, text: &str) -> Response {
    problem_with(visitor, status, text, "/console", "To the overview")
}

/// Returns a page with a problem, and a link to the page at `path`.
pub(in crate::serve::console) fn problem_with(
    visitor: Option<&Visitor>,
    status: StatusCode,
    text: &str,
    path: &str,
    link: &str,
) -> Response {
    let content = html! { section class="problem" role="alert" { (text) } p { a href=(path) { (link) } } };
    answer(status, page(visitor, status.canonical_reason().unwrap_or("Problem"), false, &content))
}

/// Returns a time in seconds, for people.
pub(in crate::serve::console) fn moment(at: &str) -> String {
    let seconds = at.split(['.', 'Z']).next().unwrap_or(at);
    format!("{} UTC", seconds.replace('T', " "))
}

/// Sends the browser to another page.
pub(in crate::serve::console) fn see(path: &str) -> Response {
    match HeaderValue::from_str(path) {
        Ok(path) => (StatusCode::SEE_OTHER, [(LOCATION, path)]).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Returns the rows of one page of a table, and links to the others. `search` is what was looked for, `path` the page.
pub(in crate::serve::console) fn part<T>(rows: Vec<T>, number: u64, path: &str, search: &str) -> (Vec<T>, Markup) {
    let count = rows.len();
    let number = usize::try_from(number).unwrap_or(usize::MAX).min((count.max(1) - 1) / ROWS);
    (rows.into_iter().skip(number * ROWS).take(ROWS).collect(), links(count, number, path, search))
}

/// Returns links to the other pages of a table with so many rows.
pub(in crate::serve::console) fn links(count: usize, number: usize, path: &str, search: &str) -> Markup {
    let last = (count.max(1) - 1) / ROWS;
    let number = number.min(last);
    let link = |number: usize| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.append_pair("q", search).append_pair("page", &number.to_string()).finish();
        format!("{path}?{query}")
    };
    html! {
        @if last > 0 {
            p {
                @if number > 0 { a href=(link(number - 1)) rel="prev" { "Previous page" } " " }
                "Page " (number + 1) " of " (last + 1) ", " (count) " in all "
                @if number < last { a href=(link(number + 1)) rel="next" { "Next page" } }
            }
        }
    }
}
