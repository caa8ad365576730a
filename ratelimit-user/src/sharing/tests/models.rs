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
            let may_stop = history.note(Some(client), true, now);
            // Requests of one to two halves count: those of this half, and of the one before.
            let counted: Vec<_> = list.iter().filter(|(at, _)| at / HALF + 1 >= now / HALF).collect();
            let own = counted.iter().filter(|(_, this)| *this == client).count();
            let clients: HashSet<_> = counted.iter().map(|(_, client)| client).collect();
            if may_stop {
                prop_assert!(own >= REFUSED as usize && own * 5 >= counted.len() * 4);
                prop_assert!(clients.len() <= CLIENTS);
                prop_assert!(now - first >= KNOWN);
            }
            // One that is alone for all that is counted is stopped, if each client had a count of its own.
            let ever: HashSet<_> = list.iter().map(|(_, client)| client).collect();
            if ever.len() <= CLIENTS && clients.len() == 1 && own >= REFUSED as usize && now - counted[0].0 >= KNOWN {
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
