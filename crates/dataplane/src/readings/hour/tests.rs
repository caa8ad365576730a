use super::*;

fn source(number: u32) -> (Source, Service) {
    (Source::v4(number.to_be_bytes()), Service::Any)
}

fn packets(packets: u64) -> Counts {
    Counts { packets, bytes: 100 * packets, dropped: 0 }
}

/// Looks at these sources with their counts at a time in seconds.
fn look(hour: &mut Hour, second: u64, sources: &[(u32, u64)]) {
    hour.begin(second * SECOND);
    for (number, count) in sources {
        hour.note(u64::from(*number).wrapping_mul(0x9e37_79b9_7f4a_7c15), source(*number), packets(*count));
    }
    hour.end(second * SECOND, true);
}

#[test]
fn minutes_have_what_was_sent_between_looks_and_end_after_an_hour() {
    let mut hour = Hour::default();
    look(&mut hour, 0, &[(1, 1_000)]);
    assert_eq!((hour.sent(), hour.watched()), (Vec::new(), Duration::ZERO));
    // A look within the minute, as before a preview.
    look(&mut hour, 30, &[(1, 1_100)]);
    look(&mut hour, 61, &[(1, 1_300), (2, 40)]);
    look(&mut hour, 70, &[(1, 1_300), (2, 45)]);
    let sent = hour.sent();
    let span = |begin: u64, end: u64| Span { begin: begin * SECOND, end: end * SECOND };
    assert_eq!((sent[0].source, sent[0].minutes.as_slice()), (source(1).0, &[(span(0, 61), packets(300))][..]));
    assert_eq!(sent[1].minutes, [(span(0, 61), packets(40)), (span(61, 70), packets(5))]);
    assert_eq!((sent[1].all, hour.watched()), (packets(45), Duration::from_secs(70)));
    look(&mut hour, 3_600, &[(1, 1_300), (2, 45)]);
    assert_eq!(hour.sent().len(), 2);
    look(&mut hour, 3_700, &[(1, 1_300), (2, 45)]);
    assert_eq!(hour.sent().iter().map(|sent| sent.all.packets).collect::<Vec<_>>(), [5]);
    look(&mut hour, 7_400, &[]);
    assert_eq!(hour.sent(), []);
}

#[test]
fn a_flood_of_forged_sources_neither_grows_nor_displaces_the_busiest() {
    let mut hour = Hour::default();
    look(&mut hour, 0, &[]);
    let real: Vec<u32> = (1..=100).collect();
    for minute in 1..=60 {
        let mut sources: Vec<(u32, u64)> = (0..50_000).map(|forged| (minute * 1_000_000 + forged, 256)).collect();
        sources.extend(real.iter().map(|number| (*number, u64::from(minute) * 1_000)));
        look(&mut hour, u64::from(minute) * 60, &sources);
    }
    let sent = hour.sent();
    assert!(hour.minutes.len() <= 60 && hour.minutes.iter().all(|minute| minute.sources.len() <= MOST));
    assert!(sent.len() <= 60 * MOST);
    for (number, sent) in real.iter().zip(&sent) {
        assert!(sent.all.packets >= 59_000, "{number}: {sent:?}");
    }
}
