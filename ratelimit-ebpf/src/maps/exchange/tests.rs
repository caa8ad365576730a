use super::*;

const COST: u64 = 10;

/// Charges a word that another CPU raises by one before each of the first `lost` looks is answered.
fn race(word: &Word, addition: Addition, most: u64, mut lost: u32) -> Option<u64> {
    charge::<TRIES>(word, addition, |seen| {
        if lost != 0 {
            lost -= 1;
            word.add(1);
        }
        (seen + COST <= most).then_some(seen + COST)
    })
}

#[test]
fn a_packet_that_loses_every_try_is_charged() {
    for lost in 0..=TRIES + 2 {
        let word = Word::new(100);
        let charged = race(&word, Addition::within(1 << 40, COST), 1_000, lost);
        assert!(charged.is_some());
        assert_eq!(word.load(), 100 + COST + u64::from(lost), "{lost} lost");
    }
}

#[test]
fn a_packet_that_does_not_fit_at_its_last_step_is_refused_and_not_charged() {
    // Another CPU takes the last room after the last look, before the addition.
    let word = Word::new(100);
    let most = 100 + COST + u64::from(TRIES);
    assert_eq!(race(&word, Addition::within(1 << 40, COST), most, TRIES + 1), None);
    assert_eq!(word.load(), 100 + u64::from(TRIES) + 1);
}

#[test]
fn an_addition_that_could_overflow_is_refused() {
    let word = Word::new(100);
    assert_eq!(race(&word, Addition::within((COST << CPU_BITS) - 1, COST), 1_000, TRIES + 1), None);
    assert_eq!(race(&word, Addition::of((COST << CPU_BITS) - 1, COST), 1_000, TRIES + 1), None);
    assert_eq!(word.load(), 100 + 2 * (u64::from(TRIES) + 1));
}

#[test]
fn a_charge_is_given_back_only_if_no_other_cpu_has_charged_the_word_since() {
    let word = Word::new(100 + COST);
    undo(&word, 100 + COST, COST);
    assert_eq!(word.load(), 100);
    // What was charged has drained, and another CPU has charged the word anew.
    word.store(5_000 + COST);
    undo(&word, 100 + COST, COST);
    assert_eq!(word.load(), 5_000 + COST);
}
