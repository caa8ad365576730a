//! The filters of buckets in cells: which sources have no bucket, without a look-up.

use ratelimit_common::cells::bucket_filter::{Bits, BucketFilter};

use crate::{
    bpf::atomic::Word,
    maps::{
        cells::{self, Cell},
        exchange::{FEW_TRIES, exchange},
        shared,
    },
};

/// Returns whether the source with this hash may have a bucket that it has used lately.
#[inline(always)]
#[must_use]
pub fn may_have(hash: u64) -> bool {
    let Some(epoch) = shared::epoch() else { return true };
    let Some(cell) = cells::of(hash) else { return true };
    let bits = Bits::of(hash);
    let has = |epoch| filter(of_epoch(cell, epoch)).may_have(bits, epoch);
    has(epoch) || has(epoch - 1)
}

/// Notes that the source with this hash uses its bucket. If another CPU writes at each try, its next packet notes it.
#[inline(always)]
pub fn note(hash: u64) {
    let Some(epoch) = shared::running_epoch() else { return };
    let Some(cell) = cells::of(hash) else { return };
    if !filter(of_epoch(cell, epoch)).may_have(Bits::of(hash), epoch) {
        note_bucket(hash);
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn note_bucket(hash: u64) -> u32 {
    let (Some(epoch), Some(cell)) = (shared::running_epoch(), cells::of(hash)) else { return 0 };
    let bits = Bits::of(hash);
    let _ = exchange::<FEW_TRIES>(of_epoch(cell, epoch), |seen| {
        let filter = BucketFilter(seen);
        (!filter.may_have(bits, epoch)).then_some(filter.with(bits, epoch).0)
    });
    0
}

/// Returns the word of an epoch.
#[inline(always)]
fn of_epoch(cell: &Cell, epoch: u64) -> &Word {
    let [even, odd] = &cell.filters;
    if epoch & 1 == 0 { even } else { odd }
}

#[inline(always)]
fn filter(word: &Word) -> BucketFilter {
    BucketFilter(word.load())
}
