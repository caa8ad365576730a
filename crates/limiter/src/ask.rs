//! Asks all limits of a rule about a request.

use super::{
    limit::{Limit, Look, NEVER, State, within},
    verdict::{Cause, Charged, Part, Refusal, Verdict},
};

/// Asks these limits and their soft limits, whose states lie one behind the other. Nothing is charged. If it is elastic,
/// the caller has room for requests above the limits. A client without a request for its life begins anew.
pub(super) fn ask(
    limits: &[Limit],
    soft_limits: &[Limit],
    states: &mut [State],
    (now, cost, life): (u64, u32, Option<u64>),
    is_elastic: bool,
) -> Verdict {
    let (own, soft) = states.split_at_mut(limits.len().min(states.len()));
    let (mut charged, mut latest, mut refusal) = (Charged::new(), 0, None);
    for (number, (limit, state)) in limits.iter().zip(own.iter_mut()).enumerate() {
        let part = match limit.ask(state, now, cost) {
            Look::Admit { after } => {
                latest = latest.max(after);
                Part::Limit
            }
            Look::Refuse { wait } => {
                let extra = soft_limits.get(number).zip(soft.get_mut(number));
                let is_soft =
                    extra.is_some_and(|(limit, state)| matches!(limit.ask(state, now, cost), Look::Admit { .. }));
                if !is_soft && !is_elastic {
                    let longest = refusal.is_none_or(|(_, longest)| wait > longest);
                    refusal = if longest { Some((number, wait)) } else { refusal };
                }
                if is_soft { Part::Soft } else { Part::Room }
            }
        };
        charged.push(part);
    }
    match refusal {
        Some((limit, wait)) => {
            let cause = if wait == NEVER { Cause::Cost } else { Cause::Limit };
            Verdict::Refuse { refusal: Refusal { limit, cause }, wait: within(life, wait) }
        }
        None => Verdict::Admit { after: latest, charged },
    }
}
