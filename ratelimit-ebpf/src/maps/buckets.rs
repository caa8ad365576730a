//! The sources' buckets.

use core::{mem::MaybeUninit, ptr};

use aya_ebpf::{bindings::BPF_NOEXIST, btf_maps::LruHashMap, macros::btf_map};
use ratelimit_common::{
    buckets::bucket::{self, Resolution},
    identity::source::Source,
    maps::names,
};

use crate::{
    bpf::{
        atomic::Word,
        settings,
        verifier::{given, key},
    },
    maps::{counters::Counts, resize, shared, this_cpu},
};

/// See [`names::BUCKETS`].
#[btf_map]
pub static BUCKETS: LruHashMap<Source, Bucket, { names::BUCKETS_DEFAULT as usize }> = LruHashMap::new();

/// See [`names::OLD_BUCKETS`].
#[btf_map]
pub static OLD_BUCKETS: LruHashMap<Source, Bucket, 1> = LruHashMap::new();

/// A source's [`bucket::Bucket`], which the CPUs share.
#[repr(C)]
pub struct Bucket {
    /// State of the packet limit.
    pub packets: Word,
    /// State of the second limit, of bytes or packets.
    pub second: Word,
    /// See [`ratelimit_common::buckets::bucket::Resolution`].
    pub resolution: Word,
    /// Counters.
    pub counts: Counts,
}
const _: () = assert!(size_of::<Bucket>() == size_of::<bucket::Bucket>());

impl Bucket {
    /// Writes a bucket in these states that has counted nothing.
    ///
    /// The writes are volatile, because LLVM would call `memset` otherwise. That is a function with 32 bytes of the
    /// stack.
    #[inline(always)]
    fn init(place: &mut MaybeUninit<Self>, packets: u64, second: u64, resolution: u64, now: u64) -> &Self {
        const { assert!(size_of::<Counts>() == 6 * size_of::<u64>()) };
        let [passed, passed_bytes, dropped, dropped_bytes, would_drop, would_drop_bytes] = Counts::none(now);
        let bucket = place.as_mut_ptr();
        // SAFETY: the place is writable, its counters are six words, and any words make a bucket.
        unsafe {
            (&raw mut (*bucket).packets).cast::<u64>().write_volatile(packets);
            (&raw mut (*bucket).second).cast::<u64>().write_volatile(second);
            (&raw mut (*bucket).resolution).cast::<u64>().write_volatile(resolution);
            let counts: *mut u64 = (&raw mut (*bucket).counts).cast();
            counts.write_volatile(passed);
            counts.add(1).write_volatile(passed_bytes);
            counts.add(2).write_volatile(dropped);
            counts.add(3).write_volatile(dropped_bytes);
            counts.add(4).write_volatile(would_drop);
            counts.add(5).write_volatile(would_drop_bytes);
            place.assume_init_ref()
        }
    }

    /// Returns the cached resolution.
    #[inline(always)]
    pub fn resolved(&self) -> Resolution {
        Resolution(self.resolution.load())
    }
}

/// Returns the bucket of a source.
#[inline(always)]
#[must_use]
pub fn find(source: &Source) -> Option<&'static Bucket> {
    let found = inserted(source);
    if resize::is_on() && found.is_none() {
        fetch_old_bucket(source);
        return inserted(source);
    }
    found
}

/// Returns the bucket of a source after [`insert`].
#[inline(always)]
#[must_use]
pub fn inserted(source: &Source) -> Option<&'static Bucket> {
    // SAFETY: nothing here removes the entry, and an entry that the kernel recycles holds another source's words, all
    // valid.
    unsafe { BUCKETS.get(source) }
}

/// Writes what has decided about a source into its bucket, if the word there has not changed since it was read.
///
/// The kernel can recycle the entry for another source at any moment. So this looks again afterwards. If the entry has
/// another source by then, it counts as [new](Resolution::NEW), and that source's next packet is resolved anew. At most the packets of
/// these nanoseconds see a word of another source.
#[inline(never)]
pub fn cache_resolution(source: &Source, bucket: &'static Bucket, before: Resolution, after: Resolution) {
    if before != after
        && bucket.resolution.compare_exchange(before.0, after.0).is_ok()
        && !inserted(source).is_some_and(|found| ptr::eq(found, bucket))
    {
        let _ = bucket.resolution.compare_exchange(after.0, Resolution::NEW.0);
    }
}

/// Returns a source as the class that is billed for its packets, as far as its bucket knows.
#[inline(always)]
#[must_use]
pub fn billed(source: Source) -> Source {
    if !settings::has_services() {
        return source;
    }
    match find(&source).and_then(|bucket| bucket.resolved().billed()) {
        Some(class) => source.of_class(class),
        None => source,
    }
}

/// Puts the bucket of a source that is first seen at `now` into the map, unless another CPU was first. The caller looks
/// for the bucket afterwards.
#[inline(always)]
pub fn insert(source: &Source, packets: u64, second: u64, resolution: Resolution, now: u64) {
    insert_bucket(source, packets, second, resolution.0, now);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn insert_bucket(source: *const Source, packets: u64, second: u64, resolution: u64, now: u64) -> u32 {
    let Some(source) = given(source) else { return 0 };
    let mut place = MaybeUninit::uninit();
    let bucket = Bucket::init(&mut place, packets, second, resolution, now);
    let outcome = BUCKETS.insert(key(source), bucket, u64::from(BPF_NOEXIST));
    if let Some(cpu) = this_cpu::get() {
        match outcome {
            Ok(()) => shared::count_created(cpu),
            Err(_) => cpu.failed.increment(),
        }
    }
    0
}

/// Moves the bucket of a source from the map of the previous size.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn fetch_old_bucket(source: *const Source) -> u32 {
    if !resize::is_on() {
        return 0;
    }
    let Some(source) = given(source) else { return 0 };
    u32::from(resize::move_entry(&OLD_BUCKETS, &BUCKETS, &key(source)))
}
