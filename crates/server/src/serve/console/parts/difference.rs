//! What a change of a rule does, key by key.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::config::written::{Keys, in_line};

/// Returns the keys that differ, as rows.
pub(in crate::serve::console) fn difference(old: Option<&Keys>, new: Option<&Keys>) -> Markup {
    let names: BTreeSet<_> = [old, new].into_iter().flatten().flat_map(Keys::keys).collect();
    let text = |keys: Option<&Keys>, name: &str| keys.and_then(|keys| keys.get(name)).map(in_line);
    let rows = names.into_iter().map(|name| (name, text(old, name), text(new, name)));
    let rows: Vec<_> = rows.filter(|(_, old, new)| old != new).collect();
    let cell = |text: Option<String>| match text {
        Some(text) => html! { code { (text) } },
        None => html! { span class="dim" { "none" } },
    };
    html! {
        @if rows.is_empty() { p class="dim" { "No key differs." } }
        @else {
            div class="table" tabindex="0" role="region" aria-label="Keys that differ" {
                table {
                    thead { tr { th scope="col" { "Key" } th scope="col" { "Before" } th scope="col" { "After" } } }
                    tbody { @for (name, old, new) in rows { tr { td { (name) } td { (cell(old)) } td { (cell(new)) } } } }
                }
            }
        }
    }
}
