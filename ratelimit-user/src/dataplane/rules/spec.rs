//! What a rule says: what each source may do, and the wider limits above that.

use std::cmp::Reverse;

use ratelimit_common::{
    identity::source::{IPV4, IPV6},
    limits::policy::{IN_ALL, IN_INTERFACE, IN_PREFIX, MOST_PARENTS, Policy},
};

use crate::dataplane::{
    Error,
    rules::target::{Sources, Target},
};

/// A policy and its parents.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms {
    /// What each source may do.
    pub policy: Policy,
    /// The wider limits that must agree, the narrowest first.
    pub parents: Vec<ParentLimit>,
}

/// A wider limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParentLimit {
    /// Whose packets it counts together.
    pub scope: Scope,
    /// Its numbers.
    pub policy: Policy,
}

/// Whose packets a parent counts together. Ordered from the narrowest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Those of the sources in one prefix of this family ([`IPV4`] or [`IPV6`]), which has this many bits.
    Prefix(u8, Reverse<u8>),
    /// Those that come in by one interface.
    Interface,
    /// Those of all sources.
    All,
}

impl Scope {
    /// The kind and the bits by which the kernel side knows it.
    pub(crate) fn encoded(self) -> (u8, u8) {
        match self {
            Self::Prefix(_, Reverse(bits)) => (IN_PREFIX, bits),
            Self::Interface => (IN_INTERFACE, 0),
            Self::All => (IN_ALL, 0),
        }
    }

    /// Reads a parent of the sources of `family`; nothing if there is none.
    pub(crate) fn decoded(family: u8, scope: u8, bits: u8) -> Option<Self> {
        match scope {
            IN_PREFIX => Some(Self::Prefix(family, Reverse(bits))),
            IN_INTERFACE => Some(Self::Interface),
            IN_ALL => Some(Self::All),
            _ => None,
        }
    }
}

impl From<Policy> for Terms {
    fn from(policy: Policy) -> Self {
        Self { policy, parents: Vec::new() }
    }
}

impl Terms {
    /// Those of a policy with these parents, in whatever order they are given: there is one order, so that the same terms are equal.
    #[must_use]
    pub fn new(policy: Policy, mut parents: Vec<ParentLimit>) -> Self {
        parents.sort_by_key(|parent| parent.scope);
        Self { policy, parents }
    }

    /// The parents of the sources of one family, the narrowest first.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyParents`] where there are more than [`MOST_PARENTS`], [`Error::SameParent`] where two have the same scope.
    pub fn parents_of(&self, family: u8) -> Result<Vec<ParentLimit>, Error> {
        let concerns = |parent: &&ParentLimit| match parent.scope {
            Scope::Prefix(of, _) => of == family,
            Scope::Interface | Scope::All => true,
        };
        let mut parents: Vec<ParentLimit> = self.parents.iter().filter(concerns).copied().collect();
        parents.sort_by_key(|parent| parent.scope);
        if parents.windows(2).any(|pair| pair[0].scope == pair[1].scope) {
            return Err(Error::SameParent);
        }
        if parents.len() > MOST_PARENTS {
            return Err(Error::TooManyParents {
                family: if family == IPV4 { "IPv4" } else { "IPv6" },
                most: MOST_PARENTS,
            });
        }
        Ok(parents)
    }

    /// Checks what can be checked without an instance, for sources of IPv6 that have so many bits.
    ///
    /// # Errors
    ///
    /// What [`Self::parents_of`] says, [`Error::NarrowParent`] where a parent would have no more than one source, [`Error::WideBan`].
    pub fn check(&self, target: Target, ipv6_prefix: u8) -> Result<(), Error> {
        if self.policy.ban.time != 0 && ipv6_prefix < 32 {
            return Err(Error::WideBan(ipv6_prefix));
        }
        for family in FAMILIES.into_iter().filter(|_| !self.parents.is_empty()) {
            let whole = match (family, target.sources) {
                (IPV4, _) => 32,
                (_, Sources::Prefix(prefix)) => prefix.bits().max(ipv6_prefix),
                (_, Sources::Default) => ipv6_prefix,
            };
            let is_narrow = |parent: &ParentLimit| match parent.scope {
                Scope::Prefix(_, Reverse(bits)) => bits >= whole,
                Scope::Interface | Scope::All => false,
            };
            if let Some(ParentLimit { scope: Scope::Prefix(_, Reverse(bits)), .. }) =
                self.parents_of(family)?.into_iter().find(is_narrow)
            {
                return Err(Error::NarrowParent { bits, whole });
            }
        }
        Ok(())
    }

    /// Puts together what [`Self::parents_of`] gives for both families.
    pub(crate) fn of_families(policy: Policy, v4: Vec<ParentLimit>, v6: Vec<ParentLimit>) -> Self {
        let mut parents = v4;
        for parent in v6 {
            if !parents.contains(&parent) {
                parents.push(parent);
            }
        }
        Self::new(policy, parents)
    }
}

/// The families in the order of [`Policy::parents`].
pub(crate) const FAMILIES: [u8; 2] = [IPV4, IPV6];
