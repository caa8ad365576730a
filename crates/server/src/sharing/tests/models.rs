//! Histories beside a list of all requests.

use std::collections::HashSet;

use proptest::{collection::vec, prelude::*};

use super::*;

proptest! {
    /// Nobody is stopped whose address is shared by what a list of all requests says of the last half.
    #[test]
    fn a_stopped_client_has_made_almost_all_requests(
        requests in vec((prop_oneof![6 => Just(0), 1 => 0..6u128], 0..4 * SECOND), 1..300),
        start in 0..3 * HALF,
    ) {
        let (mut now, mut list) = (BEGIN + start, Vec::new());
        let mut history = History::new(now);
        let first = now;
        for (client, pause) in requests {
            now += pause;
            list.push((now, client));
            let may_stop = history.note(Some(client), true, now).may_stop();
            // Refusals count once in a second.
            let spaced = |times: &mut dyn Iterator<Item = u64>| {
                let mut last: Option<u64> = None;
                let is_next = |at: &u64| {
                    let is_next = last.is_none_or(|last| at - last >= SECOND);
                    last = if is_next { Some(*at) } else { last };
                    is_next
                };
                times.filter(is_next).collect::<Vec<_>>()
            };
            // Requests of one to two halves count: those of this half, and of the one before.
            let counted: Vec<_> = list.iter().filter(|(at, _)| at / HALF + 1 >= now / HALF).collect();
            let own = counted.iter().filter(|(_, this)| *this == client).map(|(at, _)| *at).collect::<Vec<_>>();
            let most = spaced(&mut own.iter().copied()).len();
            let own: HashSet<_> = own.into_iter().collect();
            let times: HashSet<_> = counted.iter().collect();
            let clients: HashSet<_> = counted.iter().map(|(_, client)| client).collect();
            if may_stop {
                prop_assert!(most >= REFUSED as usize && own.len() * 5 >= times.len() * 4);
                prop_assert!(clients.len() <= CLIENTS);
                prop_assert!(now - first >= KNOWN);
            }
            // One that is alone for all that is counted is stopped, if each client had a count of its own.
            let ever: HashSet<_> = list.iter().map(|(_, client)| client).collect();
            let all = spaced(&mut list.iter().filter(|(_, this)| *this == client).map(|(at, _)| *at));
            let refused = all.iter().filter(|at| **at / HALF + 1 >= now / HALF).count();
            let is_known = now - counted[0].0 >= KNOWN;
            if ever.len() <= CLIENTS && clients.len() == 1 && refused >= REFUSED as usize && is_known {
                prop_assert!(may_stop);
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_is_no_panic(times in vec(any::<u64>(), 1..50)) {
        let mut history = History::new(times[0]);
        for now in times {
            history.note(Some(1), true, now);
            history.note(None, false, now);
        }
    }
}
