//! What decides about the packets of an address: the rule, the default, the list or the ban, and what that outranks.

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{
        class::{self, Classes},
        source::Source,
    },
    limits::policy::Policy,
};

use crate::{
    Error,
    lists::listing::{self, Listing},
    rules::{
        list::{self, Listed, around},
        resolve::{self, Winner},
        services::Services,
        target::Target,
    },
    spared::{place::Place, renew, unapplied},
    tables::open::Tables,
};

/// What can decide about a source.
#[derive(Debug, Clone)]
pub enum Voice {
    /// A rule, a default or a ban.
    Rule(Listed),
    /// A named list.
    List(Listing),
}

/// What decides about packets of some classes from an address.
#[derive(Debug)]
pub struct Decision {
    /// The source that pays for the packets.
    pub source: Source,
    /// None if nothing has a say: every packet passes.
    pub decides: Option<Voice>,
    /// Bans, then lists, then rules from the narrowest on.
    pub outranked: Vec<Voice>,
    /// The prefix of this host's own network around the source, to which no deny, list or ban is applied.
    pub spared: Option<Place>,
}

/// Returns what decides about packets of these classes. During a change of lists, it is what the change puts in force.
pub fn of(tables: &Tables, address: &Prefix, classes: Classes) -> Result<Decision, Error> {
    let (services, source) = (Services::read(tables)?, resolve::payer(tables, address, classes)?);
    let spared = unapplied::around(&renew::in_force(tables)?, Prefix::of(&source, source.prefix));
    let (winner, billed) = resolve::winner(tables, &source, classes)?;
    let (mut decides, mut outranked) = (None, Vec::new());
    let mut add = |voice, is_winner: bool| match &decides {
        None if is_winner => decides = Some(voice),
        _ => outranked.push(voice),
    };
    let mut each = Vec::new();
    class::each(classes, true, |class| each.push(class));
    for class in &each {
        let service = services.of_class(*class).unwrap_or_default();
        let target = Target::prefix(Prefix::of(&source, source.prefix)).of(service);
        let ban = list::ban_of(tables, &source, *class, target)?;
        ban.into_iter().for_each(|ban| add(Voice::Rule(ban), winner == Winner::Ban && *class == billed));
    }
    for (at, list) in listing::having(tables, &source)?.into_iter().enumerate() {
        add(Voice::List(list), winner == Winner::List && at == 0);
    }
    for class in &each {
        for rule in around::around(tables, &source, *class)? {
            let applies = spared.is_none() || rule.spec.policy != Policy::DENIED;
            add(Voice::Rule(rule), winner == Winner::Rule && *class == billed && applies);
        }
    }
    Ok(Decision { source, decides, outranked, spared })
}
