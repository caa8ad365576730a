//! The keys of prefixes, of rules and of lists.

use aya::maps::lpm_trie::Key;
use ratelimit_common::identity::source::{PrefixKey, Source};

/// Returns the key of a prefix in a trie.
pub fn prefix_key(source: &Source) -> Key<PrefixKey> {
    let (bits, data) = source.prefix_key(source.prefix);
    Key::new(bits, data)
}
