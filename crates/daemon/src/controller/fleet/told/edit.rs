//! Changes of the shared rules that an operator asks for.

use std::{collections::HashSet, time::SystemTime};

use ratelimit_fleet::{
    engine::Engine,
    error::Error,
    kept::rules::{Mark, TEXT},
};
use ratelimit_protocol::fleet::Version;

use super::{claim::Claim, rules::Rules};
use crate::{
    config::{Planned, shared},
    controller::socket::rules::{RulesReply, RulesRequest},
};

/// How often a change is tried if somebody else changes the rules meanwhile.
const TRIES: usize = 5;

/// Does what an operator asks for. An error tells whether something can have changed.
pub(super) async fn answer(
    rules: &mut Rules,
    engine: Option<&Engine>,
    newest: &Claim,
    request: &RulesRequest,
    who: &str,
) -> Result<RulesReply, String> {
    let engine = engine.ok_or("the engine does not answer: `ratelimit fleet status` tells why")?;
    let (why, anew, change) = match request {
        RulesRequest::List => return present(rules, engine).await.map(|(_, version)| RulesReply::Version(version)),
        RulesRequest::Log => return rules.followed.store().log(engine).await.map(RulesReply::Log).map_err(unread),
        RulesRequest::Set { text, why, anew } => (why, anew, Change::Set(shared::read(text)?)),
        RulesRequest::Delete { text, why, anew } => (why, anew, Change::Delete(shared::read(text)?)),
        RulesRequest::Revert { version, why, anew } => {
            let text = rules.followed.store().text(engine, *version).await.map_err(unread)?;
            let text =
                text.ok_or_else(|| format!("the log has no version {version}: see `ratelimit fleet rules log`"))?;
            (why, anew, Change::All(shared::read(&text)?))
        }
    };
    // A host that has just started does not know yet which rules it keeps.
    rules.begin(engine).await;
    for _ in 0..TRIES {
        let (in_engine, present) = present(rules, engine).await?;
        if let Some(problem) = lost(rules, &present, newest).filter(|_| !anew) {
            return Err(problem);
        }
        let Some(next) = change.applied(&present)? else { return Ok(RulesReply::Unchanged) };
        rules.check(&next).await?;
        let written = rules.followed.store().write(engine, &in_engine, &next, [who, why]).await.map_err(unwritten)?;
        if written {
            rules.step(Some(engine)).await;
            return Ok(RulesReply::Written {
                version: next.version,
                refused: rules.refused(),
                accepts: rules.accepts(),
            });
        }
    }
    Err("other hosts change the shared rules at the same time: try again".to_owned())
}

/// Returns what an operator must know of a call that changes nothing, and has failed.
fn unread(error: Error) -> String {
    let how = if error.leaves_open() { "gives no good answer" } else { "refuses" };
    format!("nothing was changed: the engine {how}: {error}")
}

/// Returns what an operator must know of a change that has failed.
fn unwritten(error: Error) -> String {
    if error.leaves_open() {
        return format!(
            "the engine has not confirmed the change: {error}: `ratelimit fleet rules log` shows whether it was made"
        );
    }
    unread(error)
}

/// Returns why a change would give up rules that the engine has lost.
fn lost(rules: &Rules, present: &Version, newest: &Claim) -> Option<String> {
    let anew = "or add --anew to give them up";
    if rules.keeps() {
        return Some(format!(
            "nothing was changed: the engine has lost the shared rules that this host keeps, and their version is not known: \
             change them on a host that knows it, {anew}"
        ));
    }
    // A host that knows the version in force needs no other one to tell it.
    let is_known = present.version != 0 && rules.followed.known().is_some_and(|known| known.version == present.version);
    let Claim { version, host } = newest;
    (!is_known && *version > present.version).then(|| {
        format!(
            "nothing was changed: {host} says that it has version {version} of the shared rules, which the engine has not: \
             change them there, {anew}"
        )
    })
}

/// Returns the mark of the version in the engine, and the newest version: one that the engine has lost too.
async fn present(rules: &Rules, engine: &Engine) -> Result<(Mark, Version), String> {
    rules.followed.present(engine).await.map_err(unread)
}

/// What an operator asks for.
enum Change {
    /// These rules, in place of those for the same sources.
    Set(Vec<Planned>),
    /// No rules for the sources of these.
    Delete(Vec<Planned>),
    /// These rules and no others.
    All(Vec<Planned>),
}

impl Change {
    /// Returns the version after this one. None if nothing changes.
    fn applied(&self, present: &Version) -> Result<Option<Version>, String> {
        let before = shared::read(&present.text).map_err(|problem| {
            format!(
                "version {} of the shared rules cannot be changed by this version of ratelimit: {problem}",
                present.version
            )
        })?;
        let now = SystemTime::now();
        let others = |rules: &[Planned]| -> Vec<Planned> {
            let targets: HashSet<_> = rules.iter().map(|rule| rule.target).collect();
            before.iter().filter(|rule| !targets.contains(&rule.target)).cloned().collect()
        };
        let mut after = match self {
            Self::Set(rules) => [others(rules), rules.clone()].concat(),
            Self::Delete(rules) => others(rules),
            Self::All(rules) => rules.clone(),
        };
        if after == before {
            return Ok(None);
        }
        after.retain(|rule| rule.until.is_none_or(|until| now < until));
        let text = shared::write(&after)?;
        // What this host writes, each host can read.
        shared::read(&text)?;
        if text.len() > TEXT {
            return Err(format!("the shared rules would have {} bytes, at most {TEXT} are possible", text.len()));
        }
        Ok(Some(Version { version: present.version.saturating_add(1), text }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<Planned> {
        shared::read(text).unwrap()
    }

    #[test]
    fn only_a_refusal_means_that_nothing_was_changed() {
        let late = unwritten(Error::Silent(std::time::Duration::from_millis(200)));
        assert!(late.starts_with("the engine has not confirmed the change: no answer within 200 ms"), "{late}");
        let lost = unwritten(Error::Lost("broken pipe".to_owned()));
        assert!(lost.starts_with("the engine has not confirmed the change"), "{lost}");
        let refused = unwritten(Error::Server("OOM".to_owned()));
        assert_eq!(refused, "nothing was changed: the engine refuses: OOM");
    }

    #[test]
    fn a_change_replaces_rules_for_the_same_sources_and_keeps_others() {
        let deny = |source: &str| format!("[[rule]]\nsource = \"{source}\"\npolicy = \"deny\"\n");
        let present = Version { version: 7, text: deny("192.0.2.1") + &deny("192.0.2.2") };
        let limit = "[[rule]]\nsource = \"192.0.2.1\"\npackets = \"1/s\"\n";
        let after = |change: Change| change.applied(&present).unwrap().map(|next| (next.version, rules(&next.text)));
        let expected = rules(&(deny("192.0.2.2") + limit));
        assert_eq!(after(Change::Set(rules(limit))), Some((8, expected)));
        assert_eq!(after(Change::Delete(rules(limit))), Some((8, rules(&deny("192.0.2.2")))));
        assert_eq!(after(Change::All(Vec::new())), Some((8, Vec::new())));
        assert_eq!(after(Change::Delete(rules(&deny("192.0.2.9")))), None);
        assert_eq!(after(Change::All(rules(&present.text))), None);
        let strange = Version { version: 7, text: "[[rule]]\nsource = \"192.0.2.1\"\nmagic = 1\n".to_owned() };
        assert!(Change::All(Vec::new()).applied(&strange).unwrap_err().contains("cannot be changed by this version"));
    }
}
