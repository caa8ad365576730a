//! With which burst a source begins that several hosts have not seen before.

use ratelimit_tests::{Hosts, Ratelimit, wait_until};

use crate::stage::{RATE, SOURCE, Traffic, alone, wait, with_daemons};

/// What the hosts admitted of a new source, in seconds of the limit's rate.
struct Admitted {
    /// In the second after its first packet on each host.
    at_first: f64,
    /// From its first packet on any host to a second after its first one on every host.
    in_all: f64,
    /// How long that was.
    seconds: f64,
}

/// Offers a new source fifty times the limit on each of three hosts, whose burst is two seconds of the limit. So each host
/// admits its burst before it can hear of the source from others, however late its traffic begins.
fn first_second(keys: &str) -> Admitted {
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, keys, |_| {
        let all: Vec<_> = hosts.hosts.iter().map(Ratelimit::new).collect();
        for ratelimit in &all {
            // The daemon follows limits that commands set.
            ratelimit.ok("limit set default --packets 1000/s --burst 2000");
        }
        for ratelimit in &all {
            // Its exit status is 1 before the engine has answered.
            wait_until("each host knows all", || {
                let status = ratelimit.run("fleet status --json").stdout;
                serde_json::from_str::<serde_json::Value>(&status).is_ok_and(|status| status["hosts"] == 3)
            });
        }
        // The next report has told the daemon what the kernel has to know.
        wait(1.0);
        let traffic = Traffic::begin(&hosts, &[50 * RATE; 3]);
        let each = traffic.first_seconds();
        let at_first = each.iter().enumerate().map(|(host, time)| traffic.of_host(host, *time)).sum();
        let begin = each.iter().map(|[begin, _]| *begin).min().unwrap();
        let end = each.iter().map(|[_, end]| *end).max().unwrap();
        let seconds = (end - begin).as_secs_f64();
        let in_all = traffic.rate(begin, end) * seconds;
        // Each host tells its share, and how the burst of a new source is divided. What was too much is made up for.
        let fleet = || all[0].json(&format!("why {SOURCE}"))["fleet"].clone();
        let has_share = |share: f64| share > 0.0 && share < 0.5;
        wait_until("a share", || fleet()["share"].as_f64().is_some_and(has_share));
        assert_eq!(fleet()["burst_divided_among"].as_u64(), (!keys.is_empty()).then_some(3), "{}", fleet());
        Admitted { at_first, in_all, seconds }
    })
}

#[test]
fn hosts_divide_the_burst_of_a_new_source() {
    let _alone = alone();
    let (whole, share) = (first_second(""), first_second("start = \"share\"\n"));
    println!("whole {:.2}; share {:.2}, {:.2} in {:.2} s", whole.at_first, share.at_first, share.in_all, share.seconds);
    // Three bursts, or one. Without any burst, hosts would admit the limit.
    assert!(whole.at_first >= 5.5, "{}", whole.at_first);
    assert!(share.at_first >= 1.2, "{}", share.at_first);
    let burst = share.in_all - share.seconds;
    assert!(burst <= 2.2, "{burst}");
}
