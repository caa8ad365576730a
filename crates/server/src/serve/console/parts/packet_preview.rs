//! What a change of a rule for packets would have done, in words.

use maud::{Markup, html};
use ratelimit_protocol::view::{Effect, Preview, Seen};

use super::preview::span;

/// Shows what differs.
pub(in crate::serve::console) fn difference(before: Option<&str>, after: Option<&str>) -> Markup {
    let cell = |text: Option<&str>| match text {
        Some(text) => html! { code { (text) } },
        None => html! { span class="dim" { "no rule" } },
    };
    html! {
        div class="table" tabindex="0" role="region" aria-label="The rule before and after" {
            table {
                tbody {
                    tr { th scope="row" { "Before" } td { (cell(before)) } }
                    tr { th scope="row" { "After" } td { (cell(after)) } }
                }
            }
        }
    }
}

/// Shows what a change would have done.
pub(in crate::serve::console) fn preview(preview: &Preview) -> Markup {
    html! {
        section class="note" {
            h2 { "What it would have done" }
            @for sentence in sentences(preview) { p { (sentence) } }
            p class="dim" { "The numbers are estimates. " (preview.bounds.join(" ")) }
            @if !preview.worst.is_empty() { (worst(preview)) }
        }
    }
}

fn worst(preview: &Preview) -> Markup {
    html! {
        div class="table" tabindex="0" role="region" aria-label="Sources" {
            table {
                thead {
                    tr {
                        th scope="col" { "Source" } th scope="col" class="number" { "Refused at least" }
                        th scope="col" class="number" { "Packets" }
                    }
                }
                tbody {
                    @for row in &preview.worst {
                        tr {
                            td { code { (row.source) } } td class="number bad" { (row.refused) }
                            td class="number" { (row.packets) }
                        }
                    }
                }
            }
        }
    }
}

fn sentences(preview: &Preview) -> Vec<String> {
    let span = span(preview.seconds);
    let Preview { seen: Seen { sources, packets, dropped }, now, then, after, .. } = preview;
    if *sources == 0 {
        return vec![format!("The daemon has counted no source of this rule in {span}.")];
    }
    let hits = |rule: &str, Effect { hit, packets, refused }: &Effect| {
        format!(
            "{rule} would have hit {hit} of {sources} sources in {span}: at least {refused} of their {packets} packets."
        )
    };
    let mut said = Vec::new();
    said.extend(then.iter().map(|effect| hits("The new rule", effect)));
    said.extend(now.iter().map(|effect| hits("The rule in force", effect)));
    if then.is_none() {
        let what = if after.is_some() { "The new rule refuses nothing." } else { "The next wider rule applies then." };
        said.push(format!(
            "{what} In {span}, {dropped} of the {packets} packets of its {sources} sources were dropped."
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_says_what_each_rule_would_have_hit() {
        let seen = Seen { sources: 40, packets: 9_000, dropped: 70 };
        let effect = |hit, refused| Some(Effect { hit, packets: 5_000, refused });
        let of = |preview: Preview| sentences(&Preview { seen, seconds: 3_600, ..preview }).join(" ");
        let both =
            Preview { then: effect(12, 300), now: effect(1, 7), after: Some("x".to_owned()), ..Preview::default() };
        assert_eq!(
            of(both),
            "The new rule would have hit 12 of 40 sources in the last hour: at least 300 of their 5000 packets. \
             The rule in force would have hit 1 of 40 sources in the last hour: at least 7 of their 5000 packets."
        );
        let allow = Preview { after: Some("allow".to_owned()), ..Preview::default() };
        assert!(of(allow).starts_with("The new rule refuses nothing. In the last hour, 70 of the 9000 packets"));
        assert!(of(Preview::default()).starts_with("The next wider rule applies then."));
        assert_eq!(
            sentences(&Preview { seconds: 120, ..Preview::default() }),
            ["The daemon has counted no source of this rule in the last 2m."]
        );
    }
}
