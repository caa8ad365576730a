//! All rules that a visitor may read, with search.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};

use crate::{
    config::written::{Keys, in_line},
    serve::{
        access::Need,
        console::{
            parts::page::{answer, page, part},
            places::Work,
            state::{Call, Console},
        },
    },
};

/// The longest text of a rule in the table, in characters.
const LONGEST: usize = 300;

/// Shows the rules whose names or keys have the searched text.
pub(in crate::serve::console) async fn rules(console: &Arc<Console>, call: Call) -> Response {
    let Call { visitor, query, .. } = call;
    let (caller, search) = (visitor.caller.clone(), query.get("q").to_lowercase());
    let found = console.work(Work::Read, &visitor, move |console| {
        let in_force = console.book.in_force();
        let rows = in_force.each().filter(|(name, ..)| caller.may(Need::Read(name)));
        let has_text = |text: &str| text.to_lowercase().contains(&search);
        let rows = rows.filter(|(name, _, keys)| has_text(name) || has_text(&in_words(keys)));
        rows.map(|(name, version, _)| (name.to_owned(), version)).collect::<Vec<_>>()
    });
    let rows = match found.await {
        Ok(rows) => rows,
        Err(answer) => return answer,
    };
    let search = query.get("q");
    let (rows, links) = part(rows, query.number("page").unwrap_or(0), "/console/rules", search);
    let in_force = console.book.in_force();
    let words = |name: &str| in_force.get(name).map(|(_, keys)| in_words(keys)).unwrap_or_default();
    let content = html! {
        (search_form("/console/rules", "Search names and keys", search))
        p { a href="/console/new" { "New rule" } }
        section {
            @if rows.is_empty() { p class="dim" { "No rule that you may read has this text." } }
            @else {
                div class="table" tabindex="0" role="region" aria-label="Rules" {
                    table {
                        thead { tr { th scope="col" { "Name" } th scope="col" { "Rule" } th scope="col" { "Version" } } }
                        tbody {
                            @for (name, version) in rows {
                                tr {
                                    td { a href={ "/console/rule/" (name) } { (name) } }
                                    td { code { (words(&name).chars().take(LONGEST).collect::<String>()) } }
                                    td {
                                        @match version { Some(version) => { (version) } None => { "of the file" } }
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
    answer(StatusCode::OK, page(Some(&visitor), "Rules", false, &content))
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
