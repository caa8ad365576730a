//! What the daemon shows of packets: rates with their reasons, sources, rules, lists and changes.

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};
use ratelimit_base::text::units::write_duration;
use ratelimit_protocol::view::{Answer, ChangeRow, ListRow, Question, ROWS, Rules, SourceRow, in_words};

use super::rules::search_form;
use crate::serve::console::{
    history::Packets,
    parts::{
        packet_page::{trouble, way_to, ways},
        page::{answer, links, moment, page, problem},
        plot::{plot, short},
    },
    state::{Call, Console},
};

/// The longest text to search.
const LONGEST: usize = 200;

/// Shows one of these pages.
pub(in crate::serve::console) async fn packets(console: &Console, path: &[&str], call: &Call) -> Response {
    let visitor = &call.visitor;
    let Some(packets) = console.packets.as_ref().filter(|_| visitor.sees_packets) else {
        return problem(Some(visitor), StatusCode::FORBIDDEN, "Your token may not read about packets.");
    };
    let search: String = call.query.get("q").chars().take(LONGEST).collect();
    let number = usize::try_from(call.query.number("page").unwrap_or(0)).unwrap_or(0).min(1 << 20);
    let (title, question) = match path {
        [] => ("Packets", Question::Sources),
        ["rules"] => ("Rules for packets", Question::Rules { search: search.clone(), from: number * ROWS }),
        ["lists"] => ("Lists of sources", Question::Lists),
        ["changes"] => ("Changes by commands", Question::Changes),
        _ => return problem(Some(visitor), StatusCode::NOT_FOUND, "There is no such page."),
    };
    let content = match packets.ask(&question).await {
        Ok(Answer::Sources(rows)) => overview(&console.history.packets(), Ok(&rows)),
        Ok(Answer::Rules(found)) => rules(&found, number, &search, visitor.changes_packets),
        Ok(Answer::Lists(rows)) => lists(&rows),
        Ok(Answer::Changes(rows)) => changes(&rows),
        // The parts of a live page stay, with what is wrong.
        Err(text) if path.is_empty() => overview(&console.history.packets(), Err(&text)),
        Ok(_) => trouble("The daemon has another version."),
        Err(text) => trouble(&text),
    };
    let content = html! { (ways()) (content) };
    answer(StatusCode::OK, page(Some(visitor), title, path.is_empty(), &content))
}

fn overview(packets: &Packets, sources: Result<&[SourceRow], &str>) -> Markup {
    let mut reasons: Vec<_> = packets.last.reasons.iter().collect();
    reasons.sort_by_key(|row| (row.passes, std::cmp::Reverse(row.packets + row.would_drop)));
    html! {
        section id="packets" data-live {
            h2 { "Packets on " (if packets.last.interfaces.is_empty() { "no interface".to_owned() } else { packets.last.interfaces.join(", ") }) }
            @if let Some(problem) = &packets.problem { p class="bad" { (problem) } }
            (plot(&packets.samples(), "Packets", ["passed", "dropped"]))
        }
        section id="reasons" data-live {
            h2 { "Why packets are dropped or pass" }
            div class="table" tabindex="0" role="region" aria-label="Reasons" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Reason" } th scope="col" class="number" { "Packets/s" }
                            th scope="col" class="number" { "Packets" } th scope="col" class="number" { "Would drop" }
                        }
                    }
                    tbody {
                        @for row in reasons {
                            tr {
                                td {
                                    span class=(if row.passes { "good" } else { "bad" }) { (if row.passes { "passes" } else { "dropped" }) }
                                    ": " (in_words(&row.name).unwrap_or_default()) " " code class="dim" { (row.name) }
                                }
                                td class="number" { (short(packets.rates.get(&row.name).map_or(0.0, |[rate, _]| *rate))) }
                                td class="number" { (row.packets) } td class="number" { (row.would_drop) }
                            }
                        }
                    }
                }
            }
        }
        section id="sources" data-live {
            h2 { "Sources with the most dropped packets" }
            @match sources {
                Err(problem) => p class="bad" { (problem) },
                Ok([]) => p class="dim" { "No source is tracked." },
                Ok(sources) => (source_table(sources)),
            }
        }
    }
}

fn source_table(sources: &[SourceRow]) -> Markup {
    let most = sources.iter().map(|row| row.dropped + row.would_drop).max().unwrap_or(0).max(1);
    html! {
        div class="table" tabindex="0" role="region" aria-label="Sources" {
            table {
                thead {
                    tr {
                        th scope="col" { "Source" } th scope="col" { "Service" } th scope="col" class="number" { "Dropped" }
                        th scope="col" { "Share" } th scope="col" class="number" { "Would drop" } th scope="col" class="number" { "Passed" }
                    }
                }
                tbody {
                    @for row in sources {
                        tr {
                            td { code { (row.source) } } td { (row.service) } td class="number" { (row.dropped) }
                            td {
                                svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                                    rect height="10" width=((row.dropped + row.would_drop).saturating_mul(100) / most) {}
                                }
                            }
                            td class="number" { (row.would_drop) } td class="number" { (row.passed) }
                        }
                    }
                }
            }
        }
    }
}

fn end(seconds: Option<u64>) -> String {
    seconds.map_or_else(
        || "stays".to_owned(),
        |left| format!("in {}", write_duration(std::time::Duration::from_secs(left))),
    )
}

fn rules(found: &Rules, number: usize, search: &str, may_change: bool) -> Markup {
    html! {
        (search_form("/console/packets/rules", "Search sources, limits and comments", search))
        @if may_change { p { a href="/console/packets/rule" { "New rule" } } }
        section {
            @if let Some(read) = found.read {
                p class="dim" { "There was no time to read all rules. These are from the first " (read) "." }
            }
            @if found.count == 0 { p class="dim" { "No rule has this text." } }
            @else if found.rows.is_empty() { p class="dim" { "This table has no such page." } }
            @else {
                div class="table" tabindex="0" role="region" aria-label="Rules" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Packets from" } th scope="col" { "What happens" } th scope="col" { "Set by" }
                                th scope="col" { "Ends" } th scope="col" { "Comment" }
                            }
                        }
                        tbody {
                            @for row in &found.rows {
                                tr {
                                    td {
                                        @if may_change { a href=(way_to(&row.place)) { (row.packets) } } @else { code { (row.packets) } }
                                    }
                                    td { (row.policy) } td { (row.origin) }
                                    td { (end(row.ends_in)) } td { (row.comment.as_deref().unwrap_or_default()) }
                                }
                            }
                        }
                    }
                }
            }
            (links(found.count, number, "/console/packets/rules", search))
        }
    }
}

fn lists(rows: &[ListRow]) -> Markup {
    html! {
        section {
            @if rows.is_empty() { p class="dim" { "There is no list." } }
            @else {
                div class="table" tabindex="0" role="region" aria-label="Lists" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "List" } th scope="col" { "What happens" } th scope="col" class="number" { "Entries" }
                                th scope="col" class="number" { "Packets" } th scope="col" { "Ends" }
                            }
                        }
                        tbody {
                            @for row in rows {
                                tr {
                                    td { (row.name) } td { (row.action) } td class="number" { (row.entries) }
                                    td class="number" { (row.packets) } td { (end(row.ends_in)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn changes(rows: &[ChangeRow]) -> Markup {
    html! {
        section {
            @if rows.is_empty() { p class="dim" { "There is no change." } }
            @else {
                div class="table" tabindex="0" role="region" aria-label="Changes" {
                    table {
                        thead { tr { th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What" } } }
                        tbody { @for row in rows { tr { td { (moment(&row.at)) } td { (row.by) } td { code { (row.what) } } } } }
                    }
                }
            }
        }
    }
}
