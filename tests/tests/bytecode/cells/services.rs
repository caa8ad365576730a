//! Sources without a rule for a service. All their traffic is charged to one bucket.

use ratelimit_common::{buckets::bucket::Bucket, identity::source::Source, limits::limit::SECOND, reason::Reason};
use ratelimit_dataplane::{program::loader::Settings, readings::tracked};
use ratelimit_tests::{Bytecode, Frame, per_second};

use super::{of_cpus, stay_on_one_cpu};

const CHARGED: [u8; 4] = [192, 0, 2, 7];

/// DNS has a limit for other sources. This source has a limit for all its traffic.
fn with_services(admissions: u64) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { services: true, sample: false, admissions, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("10.0.0.0/8 udp/53", per_second(1, 1));
    bytecode.set("192.0.2.0/24", per_second(10, 1_000));
    bytecode.set("default", per_second(10, 10));
    bytecode
}

/// Returns the bucket of the whole source as it is listed. No other bucket of it may have counted anything.
fn listed(bytecode: &Bytecode) -> Bucket {
    let mut tracked = tracked::all(&bytecode.tables).unwrap();
    tracked.retain(|(_, bucket)| bucket.passed() + bucket.over_limit() > 0);
    assert!(tracked.len() == 1 && tracked[0].0 == Source::v4(CHARGED), "{tracked:?}");
    tracked[0].1
}

#[test]
fn a_source_without_a_service_rule_uses_one_admission() {
    stay_on_one_cpu();
    let bytecode = with_services(20);
    let dns = Frame::udp(CHARGED, 53).bytes();
    for _ in 0..100 {
        assert_eq!(bytecode.reason(&dns), Reason::WithinLimit);
    }
    let other = Frame::udp([198, 51, 100, 1], 9).bytes();
    for _ in 0..10 {
        assert_eq!(bytecode.reason(&other), Reason::WithinLimit);
    }
    assert_eq!(bytecode.reason(&other), Reason::OverPackets);
    // One bucket is for the other source. One records that DNS is charged to the whole source, which is within its
    // limit.
    assert_eq!(of_cpus(&bytecode, |cpu| cpu.admitted), 2);
}

#[test]
fn drops_by_a_cached_refusal_are_counted_in_the_charged_bucket() {
    let bytecode = with_services(10_000);
    let dns = Frame::udp(CHARGED, 53).bytes();
    bytecode.repeat(&dns, 1_000 + 500);
    assert_eq!(bytecode.count(Reason::OverPackets), 500);
    let bucket = listed(&bytecode);
    assert_eq!((bucket.over_limit(), bucket.dropped().bytes), (500, 500 * dns.len() as u64));
}
