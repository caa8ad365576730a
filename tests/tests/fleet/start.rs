//! With which burst a source begins that several hosts have not seen before.

use ratelimit_tests::{Hosts, Ratelimit};

use crate::stage::{RATE, SOURCE, Traffic, alone, wait, with_daemons};

/// Offers a new source ten times the limit on each of three hosts, whose burst is two seconds of the limit. Returns what
/// is admitted in the first second.
fn first_second(keys: &str) -> f64 {
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, keys, |_| {
        for host in &hosts.hosts {
            // The daemon follows limits that commands set.
            Ratelimit::new(host).ok("limit set default --packets 1000/s --burst 2000");
        }
        wait(4.0);
        let known = Ratelimit::new(&hosts.hosts[0]).json("fleet status")["hosts"].clone();
        assert_eq!(known.as_u64(), Some(3));
        let traffic = Traffic::begin(&hosts, &[10 * RATE; 3]);
        wait(3.0);
        let admitted = traffic.seconds(3)[0];
        // Each host tells its share, and how the burst of a new source is divided. What was too much is made up for.
        let fleet = Ratelimit::new(&hosts.hosts[0]).json(&format!("why {SOURCE}"))["fleet"].clone();
        let share = fleet["share"].as_f64().unwrap();
        assert!(share > 0.0 && share < 0.5, "{fleet}");
        assert_eq!(fleet["burst_divided_among"].as_u64(), (!keys.is_empty()).then_some(3), "{fleet}");
        admitted
    })
}

#[test]
fn hosts_divide_the_burst_of_a_new_source() {
    let _alone = alone();
    let (whole, share) = (first_second(""), first_second("start = \"share\"\n"));
    println!("whole {whole:.2}, share {share:.2}");
    // Three bursts, or one. The hosts hear of the source within some milliseconds. On a busy machine, the traffic begins
    // late. Without any burst, the first second would admit the limit.
    assert!(whole >= 5.0, "{whole}");
    assert!((1.2..=3.2).contains(&share), "{share}");
}
