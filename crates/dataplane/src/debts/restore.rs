//! Puts debts, bans and the learned rate into a new instance, before its first packet.

use aya::maps::MapError;
use aya_obj::generated::BPF_NOEXIST;
use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    buckets::bucket::Bucket,
    cells::{bucket_filter::FIRST_EPOCH, learned_rate::LearnedRate},
    identity::{class::Classes, service::Service, source::Source},
    limits::{
        ban_history::LastBan,
        policy::{LIMIT, Policy},
    },
    maps::control::Control,
    meters::{gcra, meter::Meter, stages},
};
use serde::Serialize;

use super::{Ban, Debt, Saved, words::Words};
use crate::{
    Error,
    error::Tried as _,
    readings::gauges,
    rules::{policies::levels::Scale, resolve, services::Services},
    sys::host,
    tables::{bans::Bans, open::Tables},
};

/// What was put back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The number of debts.
    pub debts: usize,
    /// The number of bans.
    pub bans: usize,
    /// The number of debts and bans that do not fit the rules and settings of the instance, or find no room.
    pub left_out: usize,
    /// Whether the learned rate of unknown sources was put back.
    pub learned: bool,
    /// The number of bans that were refused, because each would block a session.
    pub refused: usize,
    /// Why the first of them was refused.
    pub reason: Option<String>,
}

/// Fails if the ban of a source that is in force makes a session worse off.
pub type CheckBan<'a> = dyn Fn(&Tables, &Prefix) -> Result<(), Error> + 'a;

/// Writes the debts and bans that the instance can have. After an error, no ban is left.
pub fn all(tables: &mut Tables, saved: &Saved, check: &CheckBan<'_>) -> Result<Restored, Error> {
    let (table, mut written, mut restored) = (tables.bans()?, Vec::new(), Restored::default());
    let outcome = bans(tables, &table, &saved.bans, check, &mut written, &mut restored)
        .and_then(|()| debts(tables, &saved.debts, written.len()));
    if outcome.is_err() {
        written.iter().for_each(|source| table.lift(source));
    }
    (restored.debts, restored.bans) = (outcome?, written.len());
    restored.learned = learned(tables, saved)?;
    let all = saved.debts.len() + saved.bans.len();
    restored.left_out = all - restored.debts - restored.bans - restored.refused;
    Ok(restored)
}

/// Writes what an earlier program has learned, if this one learns too.
fn learned(tables: &mut Tables, saved: &Saved) -> Result<bool, Error> {
    let Some(learned) = saved.learned.and_then(LearnedRate::lasting) else { return Ok(false) };
    let learns = gauges::learned_rate(tables, &tables.control()?)?.is_some();
    if learns {
        gauges::set_learned(tables, learned)?;
    }
    Ok(learns)
}

/// Writes those of the bans whose sources and services the instance has. Lifts each one that `check` refuses.
fn bans(
    tables: &mut Tables,
    table: &Bans,
    bans: &[Ban],
    check: &CheckBan<'_>,
    written: &mut Vec<Source>,
    restored: &mut Restored,
) -> Result<(), Error> {
    let (services, control, now) = (Services::read(tables)?, tables.control()?, host::now());
    for ban in bans {
        let found = source(tables, &services, &control, &ban.source, ban.service)?;
        let Some((source, _)) = found else { continue };
        let end = now.saturating_add(ban.left);
        if !table.insert(&source, end, now) {
            continue;
        }
        if let Err(error) = check(tables, &ban.source) {
            table.lift(&source);
            restored.refused += 1;
            restored.reason.get_or_insert_with(|| error.to_string());
            continue;
        }
        written.push(source);
        // If the history finds no room, the next ban is not longer than the first one.
        let _ = insert(tables, &source.offences(), [0, LastBan::until(end, ban.doubled).0]);
    }
    Ok(())
}

/// Writes those of the debts that the limits of the instance can have, beside so many histories of bans. Returns their
/// number. The longest debts come first in `debts`. They are written last, because a full map evicts the oldest buckets.
fn debts(tables: &mut Tables, debts: &[Debt], histories: usize) -> Result<usize, Error> {
    let (services, control) = (Services::read(tables)?, tables.control()?);
    let (words, scale) = (Words::of(tables, &control)?, Scale::of(&control));
    let places = (gauges::max_sources(tables)? as usize).saturating_sub(histories);
    let mut written = 0;
    for debt in debts.iter().take(places).rev() {
        let found = source(tables, &services, &control, &debt.source, debt.service)?;
        let Some((source, classes)) = found else { continue };
        let (slot, billed) = resolve::limit_of(tables, &source, classes, host::now())?;
        let policy = tables.policies.get(slot)?;
        if u16::from(billed) != source.class || policy.kind != LIMIT || !policy.is_bucket() {
            continue;
        }
        let owed = owed(debt, &policy);
        if owed == [0; 2] {
            continue;
        }
        let hash = source.hash(&control.seed);
        let levels = words.as_ref().and_then(|words| words.levels(&policy, hash));
        let own = |owed, meter| match levels {
            Some(_) if owed != 0 => stages::handed(owed, scale.now, meter),
            _ => scale.now.wrapping_add(owed),
        };
        if !insert(tables, &source, [own(owed[0], &policy.packets), own(owed[1], &policy.second)])? {
            continue;
        }
        for (level, owed) in levels.into_iter().flatten().zip(owed).filter(|(_, owed)| *owed != 0) {
            scale.raise(level, scale.now.wrapping_add(owed));
        }
        if let Some(words) = &words {
            words.note(hash, FIRST_EPOCH);
        }
        written += 1;
    }
    Ok(written)
}

/// Returns the debts in both limits of a policy, each at most as large as the limit can make it. States are even.
fn owed(debt: &Debt, policy: &Policy) -> [u64; 2] {
    let owed = |left: u64, meter: &Meter| if meter.is_on() { gcra::units(left).min(meter.ceiling) & !1 } else { 0 };
    [owed(debt.left[0], &policy.packets), owed(debt.left[1], &policy.second)]
}

/// Returns the source that pays for packets of a service from a prefix, and the classes of these packets. None if the
/// instance divides addresses in another way, or has no rule for the service.
fn source(
    tables: &Tables,
    services: &Services,
    control: &Control,
    prefix: &Prefix,
    service: Service,
) -> Result<Option<(Source, Classes)>, Error> {
    let Some(class) = services.class(service) else { return Ok(None) };
    let (source, classes) = (prefix.source(), services.classes(service));
    let is_one = resolve::is_one_source(tables, &source, classes, control.ipv6_prefix as u8)?;
    Ok(is_one.then(|| (source.of_class(class), classes)))
}

/// Inserts a bucket with these states. Returns false if the source has one.
fn insert(tables: &mut Tables, source: &Source, states: [u64; 2]) -> Result<bool, Error> {
    let buckets = tables.buckets.open_mut()?;
    match buckets.insert(source, Bucket::in_states(states), BPF_NOEXIST.into()) {
        Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
        outcome => outcome.tried("cannot put a bucket back").map(|()| true),
    }
}
