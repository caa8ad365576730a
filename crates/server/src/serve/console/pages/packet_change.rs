//! Changes of a rule for packets: the preview, the change itself, and its way back.

use axum::{http::StatusCode, response::Response};
use maud::html;
use ratelimit_protocol::view::{self, Answer, Changed, Place, Question, Refusal, RefusalKind, Terms, Wanted};

use super::packet_rule::new_rule;
use crate::serve::console::{
    packets::Packets,
    parts::{
        packet_fields::{hidden, hidden_place, place, terms},
        packet_page::{denied, refused, trouble, way_to, ways},
        packet_preview::{difference, preview as shown},
        page::{answer, csrf, page, problem, see},
    },
    places::Work,
    state::{Call, Console},
    visit::{Form, Visitor},
};

/// Shows what a change would do, and asks for a confirmation.
pub(in crate::serve::console) async fn preview(console: &Console, call: &Call) -> Response {
    let Call { visitor, form, .. } = call;
    let wrong = |text: &str| {
        let (place, terms) = (place(form).unwrap_or_default(), terms(form).unwrap_or_default());
        new_rule(visitor, StatusCode::BAD_REQUEST, Some(text), &place, &terms)
    };
    let wanted = match wanted(form) {
        Ok(wanted) => wanted,
        Err(text) => return wrong(&text),
    };
    let question = Question::Preview { wanted: wanted.clone(), visitor: asker(console, call) };
    let preview = match ask(console, visitor, Work::Read, &question).await {
        Ok(Ok(Answer::Preview(preview))) => preview,
        Ok(Ok(Answer::Refused(Refusal { kind: RefusalKind::Wrong, text }))) => return wrong(&text),
        Ok(other) => return refused(visitor, other),
        Err(answer) => return answer,
    };
    let is_deletion = wanted.terms.is_none();
    let content = html! {
        (ways())
        @for warning in &preview.warnings { (trouble(warning)) }
        section {
            // A key that is pressed twice confirms nothing.
            h2 tabindex="-1" autofocus { "What changes" }
            (difference(preview.before.as_deref(), preview.after.as_deref()))
        }
        (shown(&preview))
        form method="post" action="/console/packets/apply" {
            (csrf(visitor)) (hidden_place(&wanted.place)) (hidden(wanted.terms.as_ref()))
            input type="hidden" name="before" value=[&preview.before];
            button class=[is_deletion.then_some("danger")] {
                @if is_deletion { "Delete the rule" } @else { "Put in force" }
            }
            " " a href=(way_to(&wanted.place)) { "Cancel" }
        }
    };
    answer(StatusCode::OK, page(Some(visitor), &format!("Preview: {}", preview.packets), false, &content))
}

/// Makes a change that was confirmed.
pub(in crate::serve::console) async fn apply(console: &Console, call: &Call) -> Response {
    let wanted = match wanted(&call.form) {
        Ok(wanted) => wanted,
        Err(text) => return problem(Some(&call.visitor), StatusCode::BAD_REQUEST, &text),
    };
    let before = Some(call.form.get("before")).filter(|before| !before.is_empty()).map(str::to_owned);
    change(console, call, &Question::Change { wanted, before, visitor: asker(console, call) }).await
}

/// Takes a change back. It fails if the rule has changed since.
pub(in crate::serve::console) async fn undo(console: &Console, call: &Call) -> Response {
    let number = call.form.number("number").unwrap_or_default();
    let place = place(&call.form).unwrap_or_default();
    change(console, call, &Question::Undo { number, place, visitor: asker(console, call) }).await
}

async fn change(console: &Console, call: &Call, question: &Question) -> Response {
    match ask(console, &call.visitor, Work::Change, question).await {
        Ok(Ok(Answer::Changed(Changed { number, place }))) => see(&format!("{}&done={number}", way_to(&place))),
        Ok(other) => refused(&call.visitor, other),
        Err(answer) => answer,
    }
}

/// Asks the daemon in turn. The outer error is the answer to a visitor who may not ask.
async fn ask(
    console: &Console,
    visitor: &Visitor,
    kind: Work,
    question: &Question,
) -> Result<Result<Answer, String>, Response> {
    let packets: Option<&Packets> = console.packets.as_ref().filter(|_| visitor.changes_packets);
    let packets = packets.ok_or_else(|| denied(visitor))?;
    let _place = console.place(kind, visitor).await?;
    Ok(packets.ask(question).await)
}

fn wanted(form: &Form) -> Result<Wanted, String> {
    let terms: Option<Terms> = if form.has("delete") { None } else { Some(terms(form)?) };
    let place: Place = place(form)?;
    Ok(Wanted { place, terms })
}

/// Returns what the daemon is told of a visitor.
fn asker(console: &Console, call: &Call) -> view::Visitor {
    let Call { visitor, peer, .. } = call;
    let name = visitor.caller.name();
    let name = if visitor.is_by_proxy { name.to_owned() } else { format!("token:{name}") };
    let connection = peer.map(|peer| peer.0).zip(console.gate.port());
    view::Visitor { name, connection }
}
