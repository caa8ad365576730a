//! The spec of a rule: the policy of each source, and its parents.

use std::cmp::Reverse;

use ratelimit_common::{
    identity::{
        parent::{IN_ALL, IN_INTERFACE, IN_PREFIX},
        source::{IPV4, IPV6},
    },
    limits::policy::{MOST_PARENTS, Policy},
};

use crate::{
    Error,
    rules::target::{Sources, Target},
};

/// A policy and its parents.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RuleSpec {
    /// The policy of each source.
    pub policy: Policy,
    /// Its parents, the narrowest first.
    pub parents: Vec<ParentLimit>,
}

/// A parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParentLimit {
    /// The sources that share it.
    pub scope: Scope,
    /// Its policy.
    pub policy: Policy,
}

/// The sources that share a parent. Narrower scopes come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The sources in one prefix of this family ([`IPV4`] or [`IPV6`]), with this many bits.
    Prefix(u8, Reverse<u8>),
    /// The sources of one interface.
    Interface,
    /// All sources.
    All,
}

impl Scope {
    /// Returns its kind and bits, as the kernel side stores them.
    pub fn encoded(self) -> (u8, u8) {
        match self {
            Self::Prefix(_, Reverse(bits)) => (IN_PREFIX, bits),
            Self::Interface => (IN_INTERFACE, 0),
            Self::All => (IN_ALL, 0),
        }
    }

    /// Returns the scope of a stored parent of `family`, if there is one.
    pub fn decoded(family: u8, scope: u8, bits: u8) -> Option<Self> {
        match scope {
            IN_PREFIX => Some(Self::Prefix(family, Reverse(bits))),
            IN_INTERFACE => Some(Self::Interface),
            IN_ALL => Some(Self::All),
            _ => None,
        }
    }
}

impl From<Policy> for RuleSpec {
    fn from(policy: Policy) -> Self {
        Self { policy, parents: Vec::new() }
    }
}

impl RuleSpec {
    /// Returns the spec of a policy with these parents. It sorts them, so that equal specs compare equal.
    #[must_use]
    pub fn new(policy: Policy, mut parents: Vec<ParentLimit>) -> Self {
        parents.sort_by_key(|parent| parent.scope);
        Self { policy, parents }
    }

    /// Returns the name of its policy in a configuration file.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.policy.name.get()
    }

    /// Returns the parents of sources of one family, the narrowest first.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyParents`] if there are more than [`MOST_PARENTS`], [`Error::SameParent`] if two have the same
    /// scope.
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

    /// Checks what can be checked without an instance, if IPv6 sources have so many bits.
    ///
    /// # Errors
    ///
    /// Those of [`Self::parents_of`], [`Error::NarrowParent`] if a parent has only one source.
    pub fn check(&self, target: Target, ipv6_prefix: u8) -> Result<(), Error> {
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

    /// Joins the parents of both families, which [`Self::parents_of`] has separated.
    pub fn of_families(policy: Policy, v4: Vec<ParentLimit>, v6: Vec<ParentLimit>) -> Self {
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
pub const FAMILIES: [u8; 2] = [IPV4, IPV6];
