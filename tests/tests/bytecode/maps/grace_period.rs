//! Waiting until no packet uses what it has read, on kernels that refuse the usual way.

use ratelimit_dataplane::sys::rcu;

#[test]
fn a_grace_period_is_awaited_by_a_map_where_membarrier_is_refused() {
    for _ in 0..3 {
        rcu::wait_by_map().unwrap();
    }
}
