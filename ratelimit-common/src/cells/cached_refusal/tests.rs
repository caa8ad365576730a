//! Properties of the two words of a cached refusal.

use super::*;
use proptest::prelude::*;

fn refusal() -> impl Strategy<Value = Refusal> {
    let reason = prop::sample::select(&[
        (Reason::OverPackets, false),
        (Reason::OverBytes, true),
        (Reason::OverParent, false),
        (Reason::OverParent, true),
        (Reason::Denied, false),
        (Reason::Listed, false),
        (Reason::Banned, false),
        (Reason::OverShare, false),
    ]);
    (any::<u64>(), any::<u32>(), any::<u64>(), any::<[bool; 2]>(), reason, 0..=WITHOUT_ROOM, 0u32..1 << 16).prop_map(
        |(hash, generation, until, [precise, of_a_peer], (reason, by_bytes), action, amount)| Refusal {
            hash,
            generation,
            until,
            precise,
            of_a_peer,
            reason,
            by_bytes,
            action,
            amount,
        },
    )
}

proptest! {
    #[test]
    fn a_cached_refusal_says_what_was_written(
        refusal in refusal(), before in 1u64..LONGEST - (1 << 20), after in prop_oneof![1u64..1 << 40, 1u64..LONGEST.wrapping_neg()],
        amount in 0u32..=1 << 16,
    ) {
        let Refusal { hash, generation, until, precise, of_a_peer, reason, by_bytes, action, .. } = refusal;
        let cached = CachedRefusal::new(refusal);
        prop_assert!(cached.is_about(hash));
        prop_assert!(!cached.is_about(hash ^ 1 << HASH_SHIFT));
        prop_assert_eq!((cached.reason(), cached.is_precise(), cached.action()), (reason, precise, action));
        prop_assert_eq!(cached.is_of_a_peer(), of_a_peer);
        let refuses_everything =
            matches!(reason, Reason::Denied | Reason::Listed | Reason::Banned | Reason::OverShare);
        prop_assert_eq!(cached.refuses_everything(), refuses_everything);
        prop_assert_eq!(cached.counts_packets(), !by_bytes && !refuses_everything);
        let now = until.wrapping_sub(before + (1 << 20));
        prop_assert_eq!(cached.refuses(hash, generation, now, amount), refuses_everything || amount >= refusal.amount);
        prop_assert_eq!(cached.list(), refusal.amount);
        prop_assert!(!cached.refuses(hash, generation.wrapping_add(1), now, 1 << 16));
        prop_assert!(!cached.refuses(hash, generation, until, 1 << 16));
        prop_assert!(!cached.refuses(hash, generation, until.wrapping_add(after), 1 << 16));
    }

    /// Sources of one of 131,072 cells have hashes that differ above the lowest 17 bits.
    #[test]
    fn of_all_hashes_in_a_cell_one_is_refused(refusal in refusal(), difference in prop_oneof![1u64..1 << 47, 1u64..1 << 5]) {
        let (cached, other) = (CachedRefusal::new(refusal), refusal.hash ^ difference << UNTOLD_SHIFT);
        let now = refusal.until.wrapping_sub(1 << 21);
        prop_assert!(cached.holds(refusal.hash, refusal.generation, now));
        prop_assert!(!(cached.is_about(other) && cached.holds(other, refusal.generation, now)));
    }

    #[test]
    fn a_cached_refusal_holds_in_its_generation_until_that_wraps(refusal in refusal(), changes in 1u32..1 << GENERATION_BITS) {
        let Refusal { hash, generation, until, .. } = refusal;
        let (cached, now) = (CachedRefusal::new(refusal), until.wrapping_sub(1 << 21));
        prop_assert!(!cached.holds(hash, generation.wrapping_add(changes), now));
        prop_assert!(cached.holds(hash, generation.wrapping_add(1 << GENERATION_BITS), now));
        let seems_to = changes % (1 << MARK_SHIFT) == 0;
        prop_assert_eq!(cached.is_in_force((generation ^ mark(hash) as u32).wrapping_add(changes), now), seems_to);
    }

    #[test]
    fn an_old_cached_refusal_is_ended_and_says_the_same(refusal in refusal(), ago in OLD + (1 << 20)..LONGEST.wrapping_neg()) {
        let Refusal { hash, generation, until, precise, of_a_peer, reason, .. } = refusal;
        let (cached, now) = (CachedRefusal::new(refusal), until.wrapping_add(ago));
        prop_assert!(cached.is_old(now) || ago > LONGEST.wrapping_neg() - (1 << 20));
        let ended = cached.ended(now);
        prop_assert!(ended.is_about(hash) && !ended.is_old(now) && !ended.refuses(hash, generation, now, 1 << 16));
        prop_assert_eq!((ended.reason(), ended.is_precise(), ended.is_of_a_peer()), (reason, precise, of_a_peer));
    }

    /// Two CPUs may write at once. The result matches no source, or ends when one of them said.
    #[test]
    fn halves_of_two_cached_refusals_make_none(one in refusal(), other in refusal(), is_same_source: bool) {
        let other = Refusal { hash: if is_same_source { one.hash } else { other.hash }, ..other };
        let (first, second) = (CachedRefusal::new(one), CachedRefusal::new(other));
        let torn = CachedRefusal { until: first.until, check: second.check };
        let same_time = (first.until ^ second.until) >> HASH_SHIFT == 0;
        prop_assert!(!torn.is_about(other.hash) || same_time);
        prop_assert!(!torn.is_about(one.hash) || same_time || !is_same_source);
    }
}

#[test]
fn the_largest_frame_is_refused_by_the_largest_amount() {
    let (hash, until, reason, amount) = (1 << 40, 1 << 40, Reason::OverBytes, 1 << 16);
    let [precise, of_a_peer, by_bytes] = [false, false, true];
    let refusal = Refusal { hash, generation: 1, until, precise, of_a_peer, reason, by_bytes, action: 0, amount };
    let cached = CachedRefusal::new(refusal);
    assert!(cached.refuses(hash, 1, 1 << 39, 1 << 16) && !cached.refuses(hash, 1, 1 << 39, (1 << 16) - 2));
    assert_eq!(cached.reason(), Reason::OverBytes);
}

#[test]
fn an_empty_cell_refuses_no_source() {
    assert!(!CachedRefusal::default().refuses(0, 0, 1 << 30, 1_514));
}
