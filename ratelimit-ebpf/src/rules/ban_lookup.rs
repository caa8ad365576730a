//! Bans of sources that no rule matches. Sources that a rule may match find their ban with their rules, in `lookup`.

use ratelimit_common::{
    identity::{
        class::{self, Class, Classes},
        source::Source,
    },
    maps::control::Control,
};

use crate::{bpf::settings, maps::bans};

/// Whether a packet is banned.
#[derive(PartialEq)]
pub enum Banned {
    /// It is not.
    No,
    /// In the class that is billed.
    Billed,
    /// In a narrower class, which has lost its default since. Other packets of the billed class are not banned.
    Narrower,
}

/// Looks for a ban of `source`, which has the billed class and this hash, for a packet of these classes.
#[inline(always)]
#[must_use]
pub fn find(source: &Source, hash: u64, classes: Classes, control: &Control, now: u64) -> Banned {
    if !settings::has_bans() || !bans::may_be(bans::hash_of_all_classes(source, hash, control), now) {
        return Banned::No;
    }
    if settings::has_services() && is_banned_below(source, classes, now) {
        return Banned::Narrower;
    }
    if bans::end(source, now) == 0 { Banned::No } else { Banned::Billed }
}

/// Returns whether the source is banned for a class of the packet that is narrower than its own.
#[inline(never)]
fn is_banned_below(source: &Source, classes: Classes, now: u64) -> bool {
    let billed = source.class as Class;
    let found = class::try_each(classes, true, |class| match class == billed {
        true => Err(false),
        false if bans::end(&source.of_class(class), now) != 0 => Err(true),
        false => Ok(()),
    });
    found == Err(true)
}
