//! The table of refusals. Each loaded program has its own, which no command reads.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::{
    cells::refusal_line::{CHOICES, Head, Key, RefusalWord, WORDS},
    maps::names::REFUSAL_LINES,
};

use crate::bpf::{atomic::Word, map_flags::ALIGNED, settings};

/// See [`ratelimit_common::maps::names::REFUSALS`].
#[btf_map]
pub static REFUSALS: Array<Line, { REFUSAL_LINES as usize }, ALIGNED> = Array::new();

/// A line of refusals, which the CPUs share. It fills a cache line.
#[repr(C)]
pub struct Line {
    head: Word,
    words: [Word; WORDS],
}
const _: () = assert!(size_of::<Line>() == 64);

/// Returns the line of the source with this key.
#[inline(always)]
#[must_use]
pub fn line(key: Key) -> Option<&'static Line> {
    REFUSALS.get(key.line(settings::REFUSAL_LINES.load()))
}

impl Line {
    /// Returns the head of the line.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> Head {
        Head(self.head.load())
    }

    /// Returns the words that can have the refusal of the source with this key.
    #[inline(always)]
    #[must_use]
    pub fn choices(&self, key: Key) -> &[Word; CHOICES] {
        let first = key.first_choice();
        // SAFETY: the first choice and those that follow it are words of the line.
        unsafe { &*self.words.as_ptr().add(first).cast() }
    }

    /// Returns the refusal of the source with this key, in force or not; zero if there is none.
    #[inline(always)]
    #[must_use]
    pub fn refusal(&self, key: Key) -> RefusalWord {
        let [first, second, third, fourth] = self.choices(key);
        let of = |word: &Word| {
            let refusal = RefusalWord(word.load());
            refusal.0 & refusal.mask_if_about(key)
        };
        RefusalWord(of(first) | of(second) | of(third) | of(fourth))
    }

    /// Gives the line another head, and keeps the refusals in force, unless that is of another generation. Returns
    /// whether this CPU has done so.
    ///
    /// Meanwhile the head is of no time. Whoever writes a word reads the head afterwards, and takes the word back if the
    /// head has changed. So no word of the time before stays behind the new head.
    #[inline(always)]
    #[must_use]
    pub fn renew(&self, before: Head, head: Head) -> bool {
        let between = head.of_no_time();
        if self.head.compare_exchange(before.0, between.0).is_err() {
            return false;
        }
        let [first, second, third, fourth, fifth, sixth, seventh] = &self.words;
        let renew = |word: &Word| word.store(RefusalWord(word.load()).moved(before, head).0);
        renew(first);
        renew(second);
        renew(third);
        renew(fourth);
        renew(fifth);
        renew(sixth);
        renew(seventh);
        self.head.compare_exchange(between.0, head.0).is_ok()
    }

    /// Writes a refusal of the source with this key in place of another.
    #[inline(always)]
    pub fn exchange(&self, key: Key, before: RefusalWord, after: RefusalWord) {
        let [first, second, third, fourth] = self.choices(key);
        let _ = before.0 == 0
            || first.compare_exchange(before.0, after.0).is_ok()
            || second.compare_exchange(before.0, after.0).is_ok()
            || third.compare_exchange(before.0, after.0).is_ok()
            || fourth.compare_exchange(before.0, after.0).is_ok();
    }

    /// Writes a refusal in place of another, unless another CPU has written there, or emptied the line.
    #[inline(always)]
    pub fn put(&self, head: Head, word: &Word, before: u64, refusal: RefusalWord) {
        // The exchange also orders: the head is read after the word is written.
        if word.compare_exchange(before, refusal.0).is_ok() && self.head.load() != head.0 {
            let _ = word.compare_exchange(refusal.0, 0);
        }
    }
}
