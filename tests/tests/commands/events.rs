//! `events`: throttling and bans, as they happen.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, TcpListener},
    process::{ChildStdout, Stdio},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use ratelimit_tests::{Flood, Frame, Process, Ratelimit, Sandbox, Sink, VICTIM_IPV4, schema};
use serde_json::{Value, json};

const NOISY: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);

/// A running `ratelimit events`.
pub(crate) struct Events {
    pub(crate) process: Process,
    lines: BufReader<ChildStdout>,
}

impl Events {
    /// Starts the command and returns once it follows events.
    pub(crate) fn start(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, words: &str) -> Self {
        let mut command = ratelimit.command(&format!("events {words}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = sandbox.start(command);
        let mut said = String::new();
        BufReader::new(process.child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ratelimit: waiting for events (Ctrl-C to end)\n");
        let lines = BufReader::new(process.child.stdout.take().unwrap());
        Self { process, lines }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn json(&mut self) -> Value {
        let line = self.line();
        let event = serde_json::from_str(&line).unwrap_or(Value::String(line));
        schema::check_value("events", &event);
        event
    }
}

#[test]
fn throttling_and_bans_are_printed_once_at_their_start_and_end() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 5");
    ratelimit.ok("limit set 10.9.0.67 --packets 1/h --burst 5 --ban 3s");
    let mut events = Events::start(&sandbox, &ratelimit, "-n 4 --json");
    for number in 66..=67 {
        Flood::of(Frame::udp(Ipv4Addr::new(10, 9, 0, number), 9)).send(&sandbox, 1_000);
    }
    let mut told: Vec<Value> = (0..4).map(|_| events.json()).collect();
    assert!(events.process.wait().status.success());
    for event in &mut told {
        assert!(event["at"].take().as_str().unwrap().ends_with('Z'));
    }
    let of = |what: &str, source: &str| {
        let found = told.iter().filter(|event| event["event"] == what && event["source"] == source);
        assert_eq!(found.count(), 1, "{what} {source}: {told:#?}");
    };
    of("throttled", "10.9.0.66");
    of("throttled", "10.9.0.67");
    of("banned", "10.9.0.67");
    // The ban ends before the source has been quiet long enough.
    of("unbanned", "10.9.0.67");
    ratelimit.ok("detach --all");
}

/// The maps are looked at every two seconds, and a ban can end and begin again in between.
#[test]
fn each_ban_of_a_source_that_goes_on_is_an_event() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 5 --ban 1s");
    let mut events = Events::start(&sandbox, &ratelimit, "--json");
    // Each ban lasts twice as long as the last one.
    let mut flood = Some(Flood::of(Frame::udp(NOISY, 9)).pace(200).start(&sandbox));
    let mut ended = None;
    assert_eq!(events.json()["event"], "throttled");
    for seconds in [1i64, 2, 4] {
        let begun = events.json();
        // No next ban tells the end of the last one.
        flood = flood.filter(|_| seconds != 4);
        let over = events.json();
        assert_eq!((&begun["event"], &begun["seconds"]), (&"banned".into(), &seconds.into()), "{begun} {over}");
        assert_eq!(over["event"], "unbanned", "{begun} {over}");
        let at = |event: &Value| event["at"].as_str().unwrap().parse::<Timestamp>().unwrap();
        let lasted = at(&over).duration_since(at(&begun)).as_millis();
        let asked = i128::from(seconds) * 1_000;
        assert!((asked - 5..asked + 100).contains(&lasted), "{begun} {over}");
        if let Some(ended) = ended.replace(at(&over)) {
            // It begins with the next packet, which a busy machine sends late. No look tells when it began.
            assert!((-5..2_000).contains(&at(&begun).duration_since(ended).as_millis()), "{ended} {begun}");
        }
    }
    ratelimit.ok("detach --all");
    assert_eq!(events.process.wait().status.code(), Some(2));
}

#[test]
fn events_beyond_the_rate_are_counted() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 2 --front off");
    let mut events = Events::start(&sandbox, &ratelimit, "--json");
    let sources = 5_000;
    Flood::of(Frame::udp(Ipv4Addr::new(10, 8, 0, 0), 9)).sources(sources).send(&sandbox, 3 * u64::from(sources));
    // Each source has one refusal.
    let (mut told, mut left_out) = (0, 0);
    while told + left_out < u64::from(sources) {
        let event = events.json();
        match event["event"].as_str().unwrap() {
            "throttled" => told += 1,
            "left-out" => left_out += event["count"].as_u64().unwrap(),
            other => panic!("{other}: {event}"),
        }
    }
    assert_eq!(told + left_out, u64::from(sources));
    assert!((100..1_000).contains(&told), "{told} were told");
    ratelimit.ok("detach --all");
    // Without an instance there are no events to follow.
    assert_eq!(events.process.wait().status.code(), Some(2));
    assert!(ratelimit.fails("events").contains("not attached"));
}

/// A cached refusal drops packets for minutes without new events of the kernel side.
#[test]
fn the_end_of_throttling_is_printed_and_a_new_refusal_starts_a_new_event() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 5");
    let mut events = Events::start(&sandbox, &ratelimit, "-n 3");
    Flood::of(Frame::udp(NOISY, 9)).send(&sandbox, 100);
    let throttled = "Z 10.9.0.66: throttled (over-packets)";
    let line = events.line();
    assert!(line.ends_with(throttled), "{line}");
    let line = events.line();
    assert!(line.contains("Z 10.9.0.66: no longer throttled, 95 packets dropped in "), "{line}");
    Flood::of(Frame::udp(NOISY, 9)).send(&sandbox, 1);
    let line = events.line();
    assert!(line.ends_with(throttled), "{line}");
    assert!(events.process.wait().status.success());
    ratelimit.ok("detach --all");
}

#[test]
fn an_event_of_a_service_charged_to_another_lasts_as_long_as_the_flood() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 5");
    // A DNS rule of other sources separates DNS for every source.
    ratelimit.ok("limit set 10.8.0.0/16 --service udp/53 --packets 9/s");
    ratelimit.ok("limit set 10.9.0.0/16 --packets 1/h --burst 5");
    let mut events = Events::start(&sandbox, &ratelimit, "-n 2 --json");
    // Longer than the ten seconds after which a source counts as quiet.
    Flood::of(Frame::udp(NOISY, 53)).pace(500).send(&sandbox, 7_000);
    let (first, last) = (events.json(), events.json());
    assert_eq!((&first["event"], &first["service"]), (&"throttled".into(), &"any".into()), "{first}");
    assert_eq!((&last["event"], &last["dropped"]), (&"ended".into(), &6_995.into()), "{last}");
    assert!(last["seconds"].as_u64().unwrap() >= 10, "{last}");
    assert!(events.process.wait().status.success());
    ratelimit.ok("detach --all");
}

#[test]
fn events_in_shadow_are_printed_as_would_be_drops() {
    for (attach, limit) in
        [("--shadow", "--packets 1/h --burst 5"), ("", "--packets 1/h --burst 5 --over-limit shadow")]
    {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit.ok(&format!("attach eth0 {attach}"));
        ratelimit.ok(&format!("limit set default {limit}"));
        let (mut json, mut words) =
            (Events::start(&sandbox, &ratelimit, "-n 1 --json"), Events::start(&sandbox, &ratelimit, "-n 2"));
        Flood::of(Frame::udp(NOISY, 9)).send(&sandbox, 100);
        let event = json.json();
        assert_eq!((&event["event"], &event["shadow"]), (&"throttled".into(), &true.into()), "{event}");
        let line = words.line();
        assert!(line.ends_with("Z 10.9.0.66: would be throttled (over-packets)"), "{line}");
        let line = words.line();
        let ended = "Z 10.9.0.66: would no longer be throttled, 95 packets would have been dropped in ";
        assert!(line.contains(ended), "{line}");
        for events in [json, words] {
            let mut process = events.process;
            assert!(process.wait().status.success());
        }
        ratelimit.ok("detach --all");
    }
}

#[test]
fn a_flood_of_syns_that_get_cookies_is_printed_at_its_start_and_end() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let _peer = Sink::at_the_peer(&sandbox);
    sandbox.set_syn_cookies("2");
    let listener = sandbox.victim(|| TcpListener::bind((VICTIM_IPV4, 0))).unwrap();
    // A cookie is charged to the limit of its source, which is far away here.
    ratelimit.ok("attach eth0 --packets 100/s --unknown 1/s --prove tcp");
    let (mut json, mut words) =
        (Events::start(&sandbox, &ratelimit, "-n 2 --json"), Events::start(&sandbox, &ratelimit, "-n 2"));
    let syn = Frame::syn(NOISY, listener.local_addr().unwrap().port());
    Flood::of(syn).sources(1_000).send(&sandbox, 1_000);
    let sent = ratelimit.json("status")["reasons"]["syn-cookie"]["packets"].as_u64().unwrap();
    // Some pass within the rate.
    assert!((990..1_000).contains(&sent), "{sent}");
    let (mut first, mut last) = (json.json(), json.json());
    assert!([&mut first, &mut last].into_iter().all(|event| event["at"].take().is_string()));
    let started = json!({"at": null, "event": "cookies-started", "unknown_per_second": 1});
    let ended = json!({"at": null, "event": "cookies-ended", "sent": sent, "unsent": 0, "proven": 0, "seconds": 0});
    assert_eq!((first, last), (started, ended));
    let line = words.line();
    assert!(line.ends_with("Z unknown sources send more than 1/s: their first SYNs get SYN cookies"), "{line}");
    let line = words.line();
    assert!(
        line.ends_with(&format!("Z no more SYN cookies: {sent} sent, 0 not sent, 0 sources proven in 0s")),
        "{line}"
    );
    ratelimit.ok("detach --all");
}

/// An upgrade is in progress, or a command was interrupted.
#[test]
fn events_during_a_resize_are_printed_afterwards() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 5");
    let mut events = Events::start(&sandbox, &ratelimit, "-n 2");
    let (program, away) = ("/sys/fs/bpf/ratelimit/program", "/sys/fs/bpf/away");
    sandbox.victim(|| fs::rename(program, away)).unwrap();
    Flood::of(Frame::udp(NOISY, 9)).send(&sandbox, 100);
    // Meanwhile it polls twice a second and prints nothing.
    thread::sleep(Duration::from_millis(1_500));
    sandbox.victim(|| fs::rename(away, program)).unwrap();
    Flood::of(Frame::udp([10, 9, 0, 67], 9)).send(&sandbox, 100);
    for source in ["10.9.0.66", "10.9.0.67"] {
        let line = events.line();
        assert!(line.ends_with(&format!("Z {source}: throttled (over-packets)")), "{line}");
    }
    assert!(events.process.wait().status.success());
    ratelimit.ok("detach --all");
}
