//! What limits the meaning of the figures, in words.

use ratelimit_common::reason::Reason;
use ratelimit_daemon::config::Config;
use ratelimit_dataplane::program::{
    loader::{LEARNED, Settings},
    values::per_second,
};

use crate::{cli::print::output, replay::judge::Judged};

/// Returns what limits the meaning of the figures.
pub(super) fn of(config: &Config, judged: &Judged) -> Vec<String> {
    let mut notes = of_capture(judged);
    notes.extend(of_file(config, judged));
    notes.extend(of_start(config, judged));
    notes
}

/// Returns what the capture lacks.
fn of_capture(judged: &Judged) -> Vec<String> {
    let mut notes = Vec::new();
    let not_judged = judged.outgoing + judged.short + judged.without_addresses + judged.without_headers;
    if judged.tally.total.all.packets + not_judged == 0 {
        notes.push(
            "the capture has no packet: `tcpdump -i NAME -Q in -s 128 -w FILE` captures the incoming packets of an interface"
                .to_owned(),
        );
    }
    let mut of_packets = |number: u64, text: &dyn Fn(String) -> String| {
        notes.extend((number != 0).then(|| text(packets(number))));
    };
    of_packets(judged.outgoing, &|packets| format!("sent by the host, and not judged: {packets}"));
    let own = judged.receivers.own();
    of_packets(own.map_or(0, |(_, sent)| sent), &|packets| {
        let address = own.map_or_else(String::new, |(address, _)| address.to_string());
        format!(
            "the capture does not tell directions, and has packets both to and from {address}. If that is an address of \
             the host, `--host {address}` leaves out what it has sent: {packets}. `tcpdump -Q in` captures only incoming \
             packets"
        )
    });
    of_packets(judged.short, &|packets| format!("shorter than 14 bytes, and not judged: {packets}"));
    of_packets(judged.without_addresses, &|packets| {
        format!("captured without their addresses, and not judged: {packets}. `tcpdump -s 128` captures enough")
    });
    of_packets(judged.without_headers, &|packets| {
        format!(
            "captured without headers that the rules need, such as ports or TCP flags, and not judged: {packets}. \
             `tcpdump -s 128` captures enough of most packets"
        )
    });
    of_packets(judged.long, &|packets| {
        format!(
            "longer than 1,522 bytes: {packets}. A host may join several packets before it captures them, and each counts \
             once here. `ethtool -K NAME gro off lro off` ends that"
        )
    });
    of_packets(judged.shortened, &|packets| {
        format!("longer than this kernel gives to a program, and shortened: {packets}")
    });
    of_packets(judged.without_time, &|packets| {
        format!("without a time, and judged at the time of the packet before: {packets}")
    });
    if judged.begins_now {
        notes.push("the first packet has no time: rules that end are judged as if the capture began now".to_owned());
    }
    if judged.set_back != 0 {
        let times = output::count(judged.set_back as usize, "time");
        notes.push(format!("the clock of the capture was set back {times}: no time passes meanwhile"));
    }
    if judged.is_cut {
        notes.push("the capture ends within a packet, which is left out".to_owned());
    }
    if judged.tally.rounds != 0 {
        notes.push(
            "there are more sources than fit in memory: those with few packets are in the row \"forgotten\", and a row of \
             a source can lack its earlier packets"
                .to_owned(),
        );
    }
    notes
}

/// Returns what is left out of the file.
fn of_file(config: &Config, judged: &Judged) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |is_true: bool, text: &str| notes.extend(is_true.then(|| text.to_owned()));
    let in_shadow =
        config.requested.shadow == Some(true) || config.interfaces.iter().any(|one| one.shadow == Some(true));
    note(in_shadow, "shadow of the file is ignored: this is what the limits drop without it");
    note(config.fleet.is_some(), "the fleet of the file is left out: each limit is judged as that of this host alone");
    note(config.crowdsec.is_some(), "decisions of CrowdSec are left out");
    if judged.in_shadow != 0 {
        notes.push(format!("over a limit with over-limit = \"shadow\", and passed: {}", packets(judged.in_shadow)));
    }
    for list in &config.lists {
        if let Err(why) = &list.content {
            notes.push(format!("list {} is left out: {} {why}", list.name, list.file.display()));
        }
    }
    notes
}

/// Returns what differs from a program that has been running on the host.
fn of_start(config: &Config, judged: &Judged) -> Vec<String> {
    let (settings, mut notes) = (config.requested.or(Settings::default()), Vec::new());
    let reasons = judged.tally.total.reasons();
    let dropped = |reason| reasons.iter().find(|(found, _)| *found == reason).map(|(_, number)| packets(*number));
    if settings.own != 0 && !reasons.is_empty() {
        notes.push(
            "answers to connections of the host are judged like other packets. In operation, they pass above a limit \
             (setting own)"
                .to_owned(),
        );
    }
    if let Some(packets) = dropped(Reason::OverUnknown) {
        notes.push(format!(
            "over-unknown: {packets}. Every source is unknown when the capture begins. A program that has been running \
             knows its sources, and drops fewer"
        ));
    }
    if settings.unknown == LEARNED {
        notes.push(
            "unknown = \"auto\" is judged as on its first day, with 100k/s. `ratelimit status` shows the rate that a \
             running program has learned, and `unknown = RATE` tries it"
                .to_owned(),
        );
    }
    if let Some(packets) = dropped(Reason::NotAdmitted) {
        notes.push(format!(
            "not-admitted: {packets}. The capture is judged with the admission budget of one CPU, {} new buckets. A host \
             that receives on several CPUs has it on each of them, and drops fewer",
            per_second(settings.admissions)
        ));
    }
    notes
}

fn packets(number: u64) -> String {
    output::count(number as usize, "packet")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::tally::Tally;
    use ratelimit_daemon::config;

    /// Returns the notes about a file and a packet with each of these reasons.
    fn notes(file: &str, drops: &[Option<Reason>]) -> Vec<String> {
        let mut tally = Tally::default();
        drops.iter().for_each(|drop| tally.add(None, 60, *drop));
        of(&config::parse(file, |_| 0).unwrap(), &Judged { tally, ..Judged::default() })
    }

    fn begin(notes: &[String], beginnings: &[&str]) {
        let is_as_expected = notes.iter().zip(beginnings).all(|(note, beginning)| note.starts_with(beginning));
        assert!(notes.len() == beginnings.len() && is_as_expected, "{notes:#?}");
    }

    #[test]
    fn what_differs_from_a_running_program_is_said_where_it_matters() {
        let file = |settings: &str| format!("interfaces = [\"eth0\"]\n[settings]\n{settings}\n");
        let none: [&str; 0] = [];
        begin(&notes(&file(""), &[None, None]), &none);
        begin(&notes(&file(""), &[None, Some(Reason::OverPackets)]), &["answers to connections of the host"]);
        begin(&notes(&file("own = \"off\""), &[None, Some(Reason::OverPackets)]), &none);
        let unknown = "own = \"off\"\nunknown = \"1000/s\"";
        begin(&notes(&file(unknown), &[None]), &none);
        let drops = [Reason::OverUnknown, Reason::OverUnknown, Reason::NotAdmitted].map(Some);
        let some = notes(&file(&format!("{unknown}\nadmissions = \"500/s\"")), &drops);
        begin(&some, &["over-unknown: 2 packets. Every source is unknown", "not-admitted: 1 packet. "]);
        assert!(some[1].contains("one CPU, 500/s new buckets"), "{}", some[1]);
        begin(&notes(&file("unknown = \"auto\""), &[None]), &["unknown = \"auto\" is judged as on its first day"]);
        if cfg!(not(feature = "fleet")) {
            return;
        }
        let fleet = file("shadow = \"on\"") + "[fleet]\nengine = \"redis://192.0.2.1\"\n";
        begin(&notes(&fleet, &[None]), &["shadow of the file is ignored", "the fleet of the file is left out"]);
    }

    #[test]
    fn what_a_capture_lacks_is_said() {
        begin(&of_capture(&Judged::default()), &["the capture has no packet: `tcpdump -i NAME "]);
        let mut judged = Judged {
            without_addresses: 1,
            without_headers: 4,
            shortened: 2,
            without_time: 3,
            begins_now: true,
            ..Judged::default()
        };
        judged.tally.rounds = 1;
        begin(
            &of_capture(&judged),
            &[
                "captured without their addresses, and not judged: 1 packet. ",
                "captured without headers that the rules need, such as ports or TCP flags, and not judged: 4 packets. ",
                "longer than this kernel gives to a program, and shortened: 2 packets",
                "without a time, and judged at the time of the packet before: 3 packets",
                "the first packet has no time: ",
                "there are more sources than fit in memory: ",
            ],
        );
    }
}
