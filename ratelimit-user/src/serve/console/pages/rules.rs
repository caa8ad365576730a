//! All rules that a visitor may read, with search.

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};

use crate::{
    config::requests::written::{Keys, in_line},
    serve::{
        access::Need,
        console::{
            parts::page::{answer, page, part},
            state::{Call, Console},
        },
    },
};

/// The longest text of a rule in the table, in characters.
const LONGEST: usize = 300;

/// Shows the rules whose names or keys have the searched text.
pub(in crate::serve::console) fn rules(console: &Console, call: &Call) -> Response {
    let (caller, search) = (&call.visitor.caller, call.query.get("q"));
    let in_force = console.book.in_force();
    let rows = in_force.each().filter(|(name, ..)| caller.may(Need::Read(name)));
    let rows = rows.map(|(name, version, keys)| (name, version, in_words(keys)));
    let has_text = |text: &str| text.to_lowercase().contains(&search.to_lowercase());
    let rows: Vec<_> = rows.filter(|(name, _, words)| has_text(name) || has_text(words)).collect();
    let (rows, links) = part(rows, call.query.number("page").unwrap_or(0), "/console/rules", search);
    let content = html! {
        (search_form("/console/rules", "Search names and keys", search))
        p { a href="/console/new" { "New rule" } }
        section {
            @if rows.is_empty() { p class="dim" { "No rule that you may read has this text." } }
            @else {
                div class="table" tabindex="0" role="region" aria-label="Rules" {
                    table {
                        thead { tr { th scope="col" { "Name" } th scope="col" { "Rule" } th scope="col" { "Kept in" } } }
                        tbody {
                            @for (name, version, words) in rows {
                                tr {
                                    td { a href={ "/console/rule/" (name) } { (name) } }
                                    td { code { (words.chars().take(LONGEST).collect::<String>()) } }
                                    td {
                                        @match version { Some(version) => { "version " (version) } None => { "the file" } }
                                    }
                                }
                            }
                        }
                    }
                }
                (links)
            }
        }
    };
    answer(StatusCode::OK, page(Some(&call.visitor), "Rules", false, &content))
}

/// Returns a form that searches.
pub(super) fn search_form(path: &str, label: &str, search: &str) -> Markup {
    html! {
        form class="row" method="get" action=(path) role="search" {
            div { label for="q" { (label) } input type="search" id="q" name="q" value=(search); }
            button { "Search" }
        }
    }
}

/// Returns the keys of a rule in one line.
fn in_words(keys: &Keys) -> String {
    keys.iter().map(|(key, value)| format!("{key} = {}", in_line(value))).collect::<Vec<_>>().join(", ")
}
