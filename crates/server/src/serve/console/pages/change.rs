//! Changes of a rule: the preview, the change itself, and its way back.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};
use ratelimit_base::text::excerpt::message;
use ratelimit_limiter::Rule;

use super::{
    log::{Logged, changes_of},
    rule::replayed,
};
use crate::{
    config::written::Keys,
    serve::{
        access::{Need, Peer},
        console::{
            parts::{
                difference::difference,
                fields::Fields,
                page::{answer, csrf, page, problem, problem_with, see},
                preview::{bounds, clients, in_words},
            },
            places::Work,
            state::{Call, Console},
            visit::{Form, Visitor},
        },
        recent::{Replayed, Sample, replay},
        rules::{Author, Change, RuleError},
    },
};

/// What a form wants of a rule.
struct Wanted {
    fields: Fields,
    /// None deletes it.
    keys: Option<Keys>,
    expected: Option<u64>,
}

impl Wanted {
    fn of(form: &Form) -> Result<Self, String> {
        let is_deletion = form.has("delete");
        let fields = if is_deletion { Fields::default() } else { Fields::of_form(form) };
        let keys = if is_deletion { None } else { Some(fields.keys()?) };
        let expected = match form.get("version") {
            "" => None,
            text => Some(text.parse().map_err(|_| "version: expected a number".to_owned())?),
        };
        Ok(Self { fields, keys, expected })
    }
}

/// Shows what a change would do, and asks for a confirmation.
pub(in crate::serve::console) async fn preview(console: &Arc<Console>, name: String, call: Call) -> Response {
    let Call { visitor, form, .. } = call;
    if let Some(refused) = may_not(&visitor, &name) {
        return refused;
    }
    let Wanted { fields, keys, expected } = match Wanted::of(&form) {
        Ok(wanted) => wanted,
        Err(problem) => return wrong(&visitor, &name, &Fields::of_form(&form), &form, &problem),
    };
    let (wanted, new) = (name.clone(), keys.clone());
    let found = console.work(Work::Read, &visitor, move |console| {
        let rule = new.map(|keys| console.book.check(&wanted, &keys)).transpose()?;
        Ok::<_, RuleError>((then(console, rule.as_ref()), replayed(console, &wanted)))
    });
    let (then, now) = match found.await {
        Ok(Ok(both)) => both,
        Ok(Err(error)) => return wrong(&visitor, &name, &fields, &form, &error.to_string()),
        Err(answer) => return answer,
    };
    let in_force = console.book.in_force();
    let old = in_force.get(&name).map(|(_, keys)| keys);
    let content = html! {
        section {
            // A key that is pressed twice confirms nothing.
            h2 tabindex="-1" autofocus { "What changes" }
            (difference(old, keys.as_ref()))
        }
        section class="note" {
            h2 { "What it would have done" }
            @if let Some((replayed, sample)) = &then {
                p { (in_words(&visitor, "the new rule", replayed, sample)) }
            }
            @if let Some((replayed, sample)) = &now {
                p { (in_words(&visitor, "the rule in force", replayed, sample)) }
            }
            @if let Some((_, sample)) = then.as_ref().or(now.as_ref()) {
                @if let Some(bounds) = bounds(sample) { p class="dim" { (bounds) } }
            }
            @if let Some((replayed, _)) = &then { (clients(&visitor, replayed)) }
        }
        form method="post" action={ "/console/rule/" (name) "/apply" } {
            (csrf(&visitor))
            input type="hidden" name="version" value=[expected];
            @if keys.is_none() { input type="hidden" name="delete" value="true"; }
            (fields.hidden())
            button class=[keys.is_none().then_some("danger")] {
                @if keys.is_none() { "Delete the rule" } @else { "Put in force" }
            }
            " " a href=(back(&name, expected)) { "Cancel" }
        }
    };
    answer(StatusCode::OK, page(Some(&visitor), &format!("Preview: {name}"), false, &content))
}

fn then(console: &Console, rule: Option<&Rule>) -> Option<(Replayed, Sample)> {
    let sample = console.service.recent.as_ref()?.sample(console.service.now());
    Some((replay(rule?, &sample), sample))
}

/// Makes a change that was confirmed.
pub(in crate::serve::console) async fn apply(console: &Arc<Console>, name: String, call: Call) -> Response {
    let Call { visitor, form, peer, .. } = call;
    if let Some(refused) = may_not(&visitor, &name) {
        return refused;
    }
    match Wanted::of(&form) {
        Ok(Wanted { keys, expected, .. }) => {
            change(console, visitor, peer, Change { name, expected, keys, undoes: None }).await
        }
        Err(problem) => wrong(&visitor, &name, &Fields::of_form(&form), &form, &problem),
    }
}

/// Takes the last change of a rule back. It fails if the rule has changed since.
pub(in crate::serve::console) async fn undo(console: &Arc<Console>, name: String, call: Call) -> Response {
    let Call { visitor, form, peer, .. } = call;
    if let Some(refused) = may_not(&visitor, &name) {
        return refused;
    }
    let (wanted, version) = (name.clone(), form.number("version"));
    let found = console.work(Work::Change, &visitor, move |console| {
        // A later change of the rule has its own way back.
        let newest = changes_of(&console.book, &wanted, 1)?.into_iter().next();
        Ok::<_, RuleError>(newest.filter(|logged| Some(logged.version) == version && logged.action != "undone"))
    });
    match found.await {
        Ok(Ok(Some(Logged { version, old, new, .. }))) => {
            let expected = new.is_some().then_some(version);
            change(console, visitor, peer, Change { name, expected, keys: old, undoes: Some(version) }).await
        }
        Ok(Err(error)) => refused(&visitor, &name, &error),
        Ok(Ok(None)) => {
            let text = "The last change of the rule is another one. Read the rule again.";
            at_rule(&visitor, &name, StatusCode::CONFLICT, text)
        }
        Err(answer) => answer,
    }
}

async fn change(console: &Arc<Console>, visitor: Visitor, peer: Option<Peer>, change: Change) -> Response {
    let author = Author { token: visitor.caller.name().to_owned(), address: peer.map(|Peer(address)| address) };
    let name = change.name.clone();
    match console.work(Work::Change, &visitor, move |console| console.book.change(&author, &change)).await {
        Ok(Ok(done)) => see(&format!("/console/rule/{name}?done={}", done.version)),
        Ok(Err(error)) => refused(&visitor, &name, &error),
        Err(answer) => answer,
    }
}

/// Returns why a visitor may not change a rule.
fn may_not(visitor: &Visitor, name: &str) -> Option<Response> {
    let text = format!("Your token may not change the rule {}.", message(name));
    (!visitor.caller.may(Need::Change(name))).then(|| problem(Some(visitor), StatusCode::FORBIDDEN, &text))
}

fn back(name: &str, expected: Option<u64>) -> String {
    if expected.is_some() { format!("/console/rule/{name}") } else { "/console/rules".to_owned() }
}

/// Shows the form again, with what is wrong.
fn wrong(visitor: &Visitor, name: &str, fields: &Fields, form: &Form, text: &str) -> Response {
    let content: Markup = html! {
        section class="problem" role="alert" { (text) }
        section {
            form method="post" action="/console/new" {
                (csrf(visitor))
                input type="hidden" name="name" value=(name);
                input type="hidden" name="version" value=(form.get("version"));
                (fields.inputs())
                button { "Preview" }
            }
        }
    };
    answer(StatusCode::BAD_REQUEST, page(Some(visitor), &format!("Change: {}", message(name)), false, &content))
}

fn refused(visitor: &Visitor, name: &str, error: &RuleError) -> Response {
    let status = match error {
        RuleError::NoStore => StatusCode::NOT_IMPLEMENTED,
        RuleError::Operators(_) | RuleError::Changed { .. } => StatusCode::CONFLICT,
        RuleError::Absent(_) => StatusCode::NOT_FOUND,
        RuleError::Wrong(_) => StatusCode::BAD_REQUEST,
        RuleError::Unwritable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        RuleError::Unreachable(_) | RuleError::Busy => StatusCode::SERVICE_UNAVAILABLE,
    };
    at_rule(visitor, name, status, &error.to_string())
}

/// Returns a page with a problem, and a link to the rule.
fn at_rule(visitor: &Visitor, name: &str, status: StatusCode, text: &str) -> Response {
    problem_with(Some(visitor), status, text, &format!("/console/rule/{name}"), "To the rule")
}
