//! Lists in force of which single entries are written.

use ratelimit_common::{
    identity::source::Source,
    limits::limit::SECOND,
    reason::Reason,
    rules::rule::{CROWDSEC, NEVER},
};
use ratelimit_dataplane::{
    lists::{action::Action, change::RequestedList, edit, listing},
    sys::host,
};
use ratelimit_tests::Bytecode;

use super::lists::{apply, frame, list, load};
use crate::front::{Front, with_and_without_cells};

/// More entries than those with which each edit rebuilds the filter.
const MANY: u32 = 5_000;

fn bans(entries: &[String], expires: u64) -> RequestedList {
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    RequestedList { expires, origin: CROWDSEC, ..list("bans", &entries, Action::Deny) }
}

/// Returns one address in each of many /16, from this one on.
fn scattered(from: u32) -> Vec<String> {
    (from..from + MANY).map(|number| format!("{}.{}.0.1", 20 + (number >> 8), number & 255)).collect()
}

fn edit(bytecode: &mut Bytecode, list: &RequestedList, rebuilds: bool) {
    assert!(edit::apply(None, &mut bytecode.tables, list, rebuilds).unwrap());
}

/// Returns of how many /16 each filter marks the address that is listed, or was.
fn marked(bytecode: &Bytecode) -> [usize; 2] {
    let filters = bytecode.filters();
    let marked = (0..=u16::MAX).map(|group| filters(&Source::v4([(group >> 8) as u8, group as u8, 0, 1])));
    marked
        .fold([0; 2], |[first, fine], [is_first, is_fine]| [first + usize::from(is_first), fine + usize::from(is_fine)])
}

fn generation(bytecode: &Bytecode) -> u32 {
    bytecode.tables.control().unwrap().generation
}

/// Each edit exchanges a fifth of the list, as decisions come and go.
fn the_filter_forgets_removed_entries_when_it_is_rebuilt(front: Front) {
    let mut bytecode = load(front);
    apply(&mut bytecode.tables, vec![bans(&scattered(0), NEVER)], &[]);
    assert_eq!(marked(&bytecode), [MANY as usize; 2]);
    for step in 1..=4 {
        edit(&mut bytecode, &bans(&scattered(step * MANY / 5), NEVER), false);
    }
    assert_eq!(marked(&bytecode), [(MANY * 9 / 5) as usize; 2]);
    edit(&mut bytecode, &bans(&scattered(MANY), NEVER), true);
    assert_eq!(marked(&bytecode), [MANY as usize; 2]);
    let all = [scattered(MANY), scattered(0)];
    for (entries, expected) in all.iter().zip([Reason::Listed, Reason::WithinLimit]) {
        for entry in [entries.first(), entries.last()].into_iter().flatten() {
            assert_eq!(bytecode.reason(&frame(entry)), expected, "{entry}");
        }
    }
}

/// Buckets and cached refusals follow entries and an earlier end. A later end changes none of them.
fn only_an_edit_that_changes_decisions_makes_the_program_decide_again(front: Front) {
    let mut bytecode = load(front);
    let now = host::now();
    bytecode.set_time(now);
    let [early, late] = [600, 1_200].map(|seconds| now + seconds * SECOND);
    let [old, new] = [["192.0.2.1".to_owned()], ["192.0.2.2".to_owned()]];
    assert!(!edit::apply(None, &mut bytecode.tables, &bans(&old, NEVER), true).unwrap());
    apply(&mut bytecode.tables, vec![bans(&old, early)], &[]);
    assert_eq!(bytecode.reason(&frame("192.0.2.1")), Reason::Listed);
    let first = generation(&bytecode);
    edit(&mut bytecode, &bans(&old, late), false);
    assert_eq!(generation(&bytecode), first);
    bytecode.set_time(early + SECOND);
    assert_eq!(bytecode.reason(&frame("192.0.2.1")), Reason::Listed);
    edit(&mut bytecode, &bans(&old, early), false);
    let second = generation(&bytecode);
    assert_ne!(second, first);
    assert_eq!(bytecode.reason(&frame("192.0.2.1")), Reason::WithinLimit);
    edit(&mut bytecode, &bans(&new, late), false);
    assert_ne!(generation(&bytecode), second);
    let reasons = ["192.0.2.1", "192.0.2.2"].map(|from| bytecode.reason(&frame(from)));
    assert_eq!(reasons, [Reason::WithinLimit, Reason::Listed]);
    assert_eq!(listing::all(&bytecode.tables).unwrap()[0].entries(), 1);
}

with_and_without_cells!(
    the_filter_forgets_removed_entries_when_it_is_rebuilt,
    only_an_edit_that_changes_decisions_makes_the_program_decide_again,
);
