//! Compares what the rules do with sessions before and after a change, and refuses a change that makes one worse off.

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{cells::learned_rate, maps::control::FEATURE_SHADOW};
use ratelimit_dataplane::{
    Error,
    decision::{self, Voice},
    program::{
        loader::{LEARNED, Settings},
        values,
    },
    rules::target::Sources,
    tables::open::Tables,
};

use super::{
    logind,
    session::{self, Session},
    standing::{Least, NEW, OPEN, Standing},
    timeline::Timeline,
};

/// Sessions that a configuration file must not block. Empty by default.
#[derive(Debug, Default)]
pub struct ProtectedSessions {
    /// Sessions without duplicates.
    pub(super) sessions: Vec<Session>,
    /// The one of them whose address is allowed at every reload.
    pub(super) own: Option<Session>,
    /// Whether no address is allowed.
    pub(super) declines: bool,
    /// The command that applies the file anyway.
    pub(super) command: &'static str,
}

impl ProtectedSessions {
    /// Protects these sessions.
    pub fn new(sessions: impl IntoIterator<Item = Session>, command: &'static str) -> Self {
        Self { sessions: without_duplicates(sessions), command, ..Self::default() }
    }

    /// Returns the addresses of the sessions.
    pub fn prefixes(&self) -> Vec<Prefix> {
        self.sessions.iter().map(|session| session.prefix()).collect()
    }

    /// Allows the address of one of the sessions at every reload.
    pub fn allowing(self, own: Option<Session>) -> Self {
        Self { own, ..self }
    }

    /// Allows no address, if the operator has declined that.
    pub fn declining(self, declines: bool) -> Self {
        Self { declines, ..self }
    }
}

fn without_duplicates(sessions: impl IntoIterator<Item = Session>) -> Vec<Session> {
    let mut each = Vec::new();
    for session in sessions {
        if !each.contains(&session) {
            each.push(session);
        }
    }
    each
}

/// What happens to a session's packets, and to packets that open another session.
type Timelines = [Timeline; 2];

/// What these packets need.
const LEAST: [Least; 2] = [OPEN, NEW];

/// Checks the rules for SSH sessions before and after a change.
pub struct Guard {
    before: Vec<(Session, Timelines)>,
    /// The session of who asks, and its name.
    own: Option<(Session, &'static str)>,
    /// How the operator allows an address first.
    allow: &'static str,
    /// What makes the change anyway.
    way_out: String,
    /// Whether no rule is enforced after the change.
    is_shadow: bool,
}

impl Guard {
    /// Protects the session of this process and those of logind, unless `force` is set.
    pub fn of(tables: &Tables, force: bool) -> Result<Self, Error> {
        let own = session::session();
        let all = own.into_iter().chain(logind::sessions());
        let sessions = if force { Vec::new() } else { without_duplicates(all) };
        // In shadow, no rule restricts a session. The end of shadow is checked.
        let is_shadow = !sessions.is_empty() && tables.control()?.features & FEATURE_SHADOW != 0;
        let way_out = "nothing was changed, --force does it anyway".to_owned();
        let allow = "`ratelimit allow add ADDRESS`";
        let own = own.map(|session| (session, "this SSH session"));
        Ok(Self { before: before(sessions, tables, is_shadow)?, own, allow, way_out, is_shadow })
    }

    /// Protects these sessions, and the connection of a visitor of the console, from a change that no visitor forces.
    pub fn of_visitor(
        tables: &Tables,
        sessions: impl IntoIterator<Item = Session>,
        visitor: Option<Session>,
    ) -> Result<Self, Error> {
        let all = without_duplicates(visitor.into_iter().chain(sessions));
        let is_shadow = !all.is_empty() && tables.control()?.features & FEATURE_SHADOW != 0;
        let way_out = "nothing was changed, a command with --force does it anyway".to_owned();
        let own = visitor.map(|session| (session, "your connection to the console"));
        Ok(Self { before: before(all, tables, is_shadow)?, own, allow: "a rule allow for ADDRESS", way_out, is_shadow })
    }

    /// The same for a new instance. Without one, no address can be allowed.
    pub fn of_new(self) -> Self {
        Self { allow: "attaching without a limit and then `ratelimit allow add ADDRESS`", ..self }
    }

    /// Protects these sessions. In shadow, no rule is enforced.
    pub fn over(
        tables: &Tables,
        protected: &ProtectedSessions,
        was_shadow: bool,
        is_shadow: bool,
    ) -> Result<Self, Error> {
        let way_out = format!("`{}` applies it anyway", protected.command);
        let before = before(protected.sessions.iter().copied(), tables, was_shadow)?;
        Ok(Self { before, own: None, allow: "`allow = [\"ADDRESS\"]` in the file", way_out, is_shadow })
    }

    /// Checks that no session is worse off than before.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::ShutOut`] for the first session that is.
    pub fn check(&self, tables: &Tables) -> Result<(), Error> {
        if self.is_shadow {
            return Ok(());
        }
        for (session, before) in &self.before {
            for (kind, (after, least)) in timelines(*session, tables)?.iter().zip(LEAST).enumerate() {
                let is_worse = |after: &Standing, before: &Standing| after.is_worse(before, &least);
                if let Some(moment) = after.first_worse(&before[kind], is_worse) {
                    return Err(self.refusal(*session, kind, after, moment, tables));
                }
            }
        }
        Ok(())
    }

    /// Checks that a ban of a source makes no session worse off.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::ShutOut`] for the first session that is.
    pub fn check_ban(&self, tables: &Tables, source: &Prefix) -> Result<(), Error> {
        let is_concerned = self.before.iter().any(|(session, _)| source.contains(&session.prefix()));
        if is_concerned { self.check(tables) } else { Ok(()) }
    }

    /// Checks that no list denies a session, unless the session was denied before. Other rules may still change.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::ShutOut`] for the first session that one denies.
    pub fn check_lists(&self, tables: &Tables) -> Result<(), Error> {
        if self.is_shadow {
            return Ok(());
        }
        for (session, before) in &self.before {
            for (kind, after) in timelines(*session, tables)?.iter().enumerate() {
                let is_listed = |after: &Standing, before: &Standing| after.is_listed() && !before.is_denied();
                if let Some(moment) = after.first_worse(&before[kind], is_listed) {
                    return Err(self.refusal(*session, kind, after, moment, tables));
                }
            }
        }
        Ok(())
    }

    /// Checks that other settings make no session worse off: the end of shadow, and a limit of unknown sources.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::ShutOut`] for the first session that is.
    pub fn check_settings(self, tables: &Tables, before: &Settings, after: &Settings) -> Result<(), Error> {
        self.check_unknown(tables, before, after)?;
        let mut ended = Self { is_shadow: after.shadow, ..self };
        if before.shadow {
            ended.before.iter_mut().for_each(|(_, before)| *before = unlimited());
        }
        ended.check(tables)
    }

    /// Checks that no session shares a low limit with all unknown sources that did not before.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::ShutOut`] for the first session that does.
    pub fn check_unknown(&self, tables: &Tables, before: &Settings, after: &Settings) -> Result<(), Error> {
        let of_all = |settings: &Settings| match settings.unknown {
            unknown if unknown == 0 || settings.shadow => f64::INFINITY,
            LEARNED => (learned_rate::LEAST / 60) as f64,
            unknown => unknown as f64,
        };
        // Its limit does not act in shadow.
        let is_low = OPEN.is_above(of_all(after)) && of_all(after) < of_all(before);
        for (session, _) in self.before.iter().filter(|_| is_low) {
            if session.standing(tables)?.iter().any(|standing| !standing.is_allowed()) {
                let rate = values::unknown(after.unknown);
                let fate = format!("limited to {rate} with all unknown sources by --unknown");
                return Err(self.shut_out(*session, fate, true));
            }
        }
        Ok(())
    }

    /// Returns the error for a session whose packets of one kind are worse off from a moment on, which may be now.
    fn refusal(
        &self,
        session: Session,
        kind: usize,
        after: &Timeline,
        (moment, is_now): (u64, bool),
        tables: &Tables,
    ) -> Error {
        let before = self.before.iter().find(|(other, _)| *other == session);
        let was_allowed = before.is_some_and(|(_, before)| before[kind].at(moment).is_allowed());
        let after = after.at(moment);
        if !is_now {
            let fate = format!("{} after its temporary rule ends", after.fate());
            return self.shut_out(session, fate, !was_allowed);
        }
        let classes = session.classes(tables).ok().and_then(|classes| classes.get(kind).copied());
        let decision = classes.and_then(|classes| decision::of(tables, &session.prefix(), classes).ok());
        let (cause, is_exact) = match decision.and_then(|decision| decision.decides) {
            Some(Voice::Rule(rule)) => {
                let is_exact = rule.target.sources == Sources::Prefix(session.prefix());
                (format!(" by the rule for {}", rule.target), is_exact)
            }
            Some(Voice::List(list)) => (format!(" by the list {}", list.name), false),
            None => (String::new(), false),
        };
        self.shut_out(session, after.fate() + &cause, !was_allowed && !is_exact)
    }

    /// Returns the error for a session, with the way to keep it if an allow would.
    fn shut_out(&self, session: Session, fate: String, can_allow: bool) -> Error {
        let own = self.own.filter(|(own, _)| *own == session);
        let whose = own.map_or("an SSH session", |(_, name)| name);
        let peer = session.prefix().to_string();
        let allow = self.allow.replace("ADDRESS", &peer);
        let way = if can_allow { format!("; {allow} keeps the session") } else { String::new() };
        let way_out = format!("{}{way}", self.way_out);
        Error::ShutOut { session: format!("{whose} comes from {peer}"), fate, way_out }
    }
}

fn unlimited() -> Timelines {
    [Timeline::unlimited(), Timeline::unlimited()]
}

fn timelines(session: Session, tables: &Tables) -> Result<Timelines, Error> {
    let [open, new] = session.classes(tables)?;
    Ok([Timeline::of(session, open, tables)?, Timeline::of(session, new, tables)?])
}

/// Returns the sessions with what happens to their packets. In shadow, all pass.
fn before(
    sessions: impl IntoIterator<Item = Session>,
    tables: &Tables,
    is_shadow: bool,
) -> Result<Vec<(Session, Timelines)>, Error> {
    let each = |session: Session| Ok((session, if is_shadow { unlimited() } else { timelines(session, tables)? }));
    sessions.into_iter().map(each).collect()
}
