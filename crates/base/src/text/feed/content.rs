//! The content of a list, its bounds, and what can be wrong with it.

use std::{io, net::IpAddr};

use crate::text::prefix::{Prefix, PrefixError};

/// The most bytes of a list, packed and unpacked: 1 GiB.
pub(super) const MOST_BYTES: u64 = 1 << 30;

/// The most lines of a list.
pub(super) const MOST_LINES: usize = 10_000_000;

/// The most prefixes: more than any list can have. A range can have hundreds.
pub(super) const MOST_PREFIXES: usize = 4_000_000;

/// The most lines that cannot be used.
pub(super) const MOST_BAD: usize = 100_000;

/// The most lines whose cut address is kept.
pub(super) const NAMED_CUTS: usize = 20;

/// The content of a list.
#[derive(Debug, Default)]
pub struct Feed {
    /// Each prefix with its line.
    pub prefixes: Vec<(Prefix, usize)>,
    /// The number of lines, or of entries of JSON, that have them.
    pub usable: usize,
    /// The lines that cannot be used, in order.
    pub bad: Vec<Bad>,
    /// The first lines whose address has bits beyond its prefix, and what is used of them.
    pub cut: Vec<Bad>,
    /// The number of such prefixes.
    pub cuts: usize,
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    pub line: usize,
    pub why: String,
}

/// What a list is for, which decides what it can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Its prefixes are refused or limited. None is so wide that it cuts the host off.
    Refuse,
    /// Its prefixes are let through. A rule that refuses them, or a word that can mean so, makes a line no part of it.
    Allow,
    /// Rules for its prefixes are deleted. Any prefix can have one.
    Delete,
}

/// A list that cannot be used at all. The message is a predicate, and [`FeedError::advice`] follows.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("has more than {MOST_LINES} lines")]
    Lines,
    #[error("has more than {0} prefixes")]
    Prefixes(usize),
    #[error("has more than {} GiB", MOST_BYTES >> 30)]
    Bytes,
    #[error("has more than {MOST_BAD} lines that cannot be used")]
    Bad,
    #[error("is a web page, not a list")]
    Page,
    #[error("has {0} names and no address")]
    Names(usize),
    #[error("looks like a hosts file: {lines} lines gave {entries} different addresses, with names")]
    Hosts { lines: usize, entries: usize },
    #[error("is text in {0}")]
    Encoding(&'static str),
    #[error("is {0}")]
    Packed(&'static str),
    #[error("is packed by gzip, but cut or damaged: {0}")]
    Gzip(io::Error),
    #[error("is JSON, but cut or damaged: {0}")]
    Json(String),
    #[error("is a set of ipset with a mask")]
    Netmask,
    #[error("has several sets of ipset")]
    Sets,
    #[error("has a comment without an end, which begins in line {0}")]
    Comment(usize),
    #[error("ends some of its lines with CR and others with LF")]
    Ends,
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl FeedError {
    /// Returns what to do.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Lines | Self::Prefixes(_) | Self::Bytes => "give a shorter list",
            Self::Bad => "check that it is a list",
            Self::Page | Self::Gzip(_) | Self::Json(_) => "check where it comes from",
            Self::Names(_) | Self::Hosts { .. } => "give a list of addresses to refuse",
            Self::Encoding(_) => "convert it to UTF-8, for example with iconv",
            Self::Packed(_) => "unpack it",
            Self::Sets => "copy one set with `ratelimit list import ipset`",
            Self::Comment(_) => "end the comment",
            Self::Ends => "end each line with LF",
            Self::Netmask => "copy it with `ratelimit list import ipset`",
            Self::Io(_) => "check the file",
        }
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    #[error("has a port, which a list cannot have: write the address alone")]
    Port,
    #[error("has the zone of an interface: write the address alone")]
    Zone,
    #[error("has a number with a zero before it, which can be octal: write it without")]
    Zeros,
    #[error("the length `{0}` stands apart: write it behind the address without a space")]
    Apart(String),
    #[error("`{0}` is no address or prefix")]
    Near(String),
    #[error("`{0}` can mean that the address is not to be listed, so it is left out")]
    Excluded(String),
    #[error("`{0}` before the address can make it a comment or an exception, so it is left out")]
    Sign(char),
    #[error("`{0}` before the address can mean anything: write the address first")]
    Lead(String),
    #[error("`{0}` behind the address restricts the rule, which a list cannot do: write the address alone")]
    Behind(String),
    #[error("this rule says more than that a source is dropped: write the address alone")]
    Rule,
    #[error("has several addresses, and can mean several things: write one address or range (A-B) per line")]
    Several,
    #[error("can be {0}/{1}, or {0} with a number: write the prefix with its slash, or the address alone")]
    Length(IpAddr, u64),
    #[error("is a line from the log of a web server: write the address alone")]
    Log,
    #[error("is a key, which can mean anything: write the address as a text")]
    Key,
    #[error("has a comment that ends in another line: write the address alone")]
    Comment,
    #[error("is in quotes that begin or end in another line: write the address alone")]
    Quote,
    #[error("has a number where an address belongs: write the address")]
    Number,
    #[error("says more than an address, and can mean that it is refused: write the address alone to allow it")]
    NotAlone,
    #[error(
        "too wide for a list, which has prefixes of /{v4} and longer, or /{v6} in IPv6",
        v4 = ratelimit_common::rules::list::SHORTEST_V4,
        v6 = ratelimit_common::rules::list::SHORTEST_V6
    )]
    Wide,
}

impl LineError {
    /// Returns whether the list says that the addresses of the line are not meant.
    pub(super) fn is_exclusion(&self) -> bool {
        matches!(self, Self::Excluded(_) | Self::Sign('!' | '-' | '~' | '^'))
    }
}
