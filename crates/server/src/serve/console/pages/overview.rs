//! The first page: what is decided now.

use axum::{http::StatusCode, response::Response};
use maud::html;
use ratelimit_limiter::Rule;

use crate::serve::{
    access::Need,
    console::{
        history::Sample,
        parts::{
            page::{ROWS, answer, page, see},
            plot::{now, plot, short},
        },
        state::{Call, Console},
    },
    recent::chooses_clients,
};

/// Shows the rates of all rules that the visitor may read, the busiest first.
pub(in crate::serve::console) fn overview(console: &Console, call: &Call) -> Response {
    let caller = &call.visitor.caller;
    if call.visitor.sees_packets && !caller.may(Need::ReadSome) {
        return see("/console/packets");
    }
    let limiter = console.service.limiter();
    // Figures of chosen clients are hidden, as on the page of the rule.
    let shows = |rule: &Rule| caller.may(Need::ReadAll) || !chooses_clients(rule);
    let readable = limiter.rules().filter(|(rule, ..)| caller.may(Need::Read(rule.name())) && shows(rule));
    let mut rows: Vec<_> = readable
        .map(|(rule, clients, ..)| {
            let samples = console.history.of_rule(rule.name());
            let sum =
                |kind: usize| samples.iter().filter_map(|sample| sample.get(kind)).map(|count| u64::from(*count)).sum();
            let (admitted, refused): (u64, u64) = (sum(0), sum(1));
            (refused, admitted, rule, clients, now(&samples))
        })
        .collect();
    rows.sort_by(|one, other| (other.0, other.1, one.2.name()).cmp(&(one.0, one.1, other.2.name())));
    let count = rows.len();
    rows.truncate(ROWS);
    let samples: Option<Vec<Sample>> = caller.may(Need::ReadAll).then(|| console.history.all());
    let content = html! {
        @if let Some(samples) = samples {
            section id="requests" data-live {
                h2 { "Requests" }
                (plot(&samples, "Requests", ["allowed", "refused"]))
            }
        }
        section id="busiest" data-live {
            h2 { "Rules with the most refusals in ten minutes" }
            @if rows.is_empty() { p class="dim" { "You may read no rule that is in force." } }
            @else {
                div class="table" tabindex="0" role="region" aria-label="Rules" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Rule" } th scope="col" class="number" { "Refused" }
                                th scope="col" class="number" { "Admitted" } th scope="col" class="number" { "Refused/s" }
                                th scope="col" class="number" { "Admitted/s" } th scope="col" class="number" { "Clients" }
                            }
                        }
                        tbody {
                            @for (refused, admitted, rule, clients, [admits, refuses]) in &rows {
                                tr {
                                    td {
                                        a href={ "/console/rule/" (rule.name()) } { (rule.name()) }
                                        @if rule.is_shadow() { " " span class="dim" { "in shadow" } }
                                    }
                                    td class={ "number" @if *refused > 0 { " bad" } } { (refused) }
                                    td class="number" { (admitted) }
                                    td class="number" { (short(*refuses)) } td class="number" { (short(*admits)) }
                                    td class="number" { (clients) }
                                }
                            }
                        }
                    }
                }
                @if count > rows.len() { p { a href="/console/rules" { "All " (count) " rules" } } }
            }
        }
    };
    answer(StatusCode::OK, page(Some(&call.visitor), "Overview", true, &content))
}
