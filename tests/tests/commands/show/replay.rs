//! `replay` judges a capture as the definition of the limits does, without an interface and beside a running instance.

use std::{collections::BTreeMap, fs, net::IpAddr, path::Path, time::Duration};

use pcap_file::{
    DataLink, Endianness, TsResolution,
    pcap::{PcapHeader, PcapPacket, PcapWriter},
    pcapng::{
        PcapNgWriter,
        blocks::{
            enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption},
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
            simple_packet::SimplePacketBlock,
        },
    },
};
use ratelimit_common::limits::limit::{Rate, SECOND};
use ratelimit_tests::{
    Folder, Frame, Ratelimit, Sandbox,
    models::{Definition, Fixed, Tokens},
};
use serde_json::{Value, json};

const CONFIG: &str = include_str!("../../../data/replay.toml");

/// 2024-01-01T00:00:00Z.
const START: u64 = 1_704_067_200;

/// Captured bytes of a packet.
const SNAPLEN: usize = 96;

/// A packet: nanoseconds since the start, its sender, and its whole frame.
type Sent = (u64, IpAddr, Vec<u8>);

/// Returns packets of seven sources over some seconds, from a seed.
fn packets() -> Vec<Sent> {
    let sources =
        ["10.9.1.1", "10.9.4.1", "10.9.1.2", "10.9.2.1", "10.9.3.1", "2001:db8:1:2:3::1", "2001:db8:1:2:4::1"];
    let (mut state, mut time) = (0x9e37_79b9_7f4a_7c15u64, 400_000_000);
    let mut random = move |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    let mut packet = |_| {
        time += random(3_000_000);
        // The first sources send most.
        let which = random(7).min(random(7)) as usize;
        let source: IpAddr = sources[which].parse().unwrap();
        (time, source, Frame::udp(source, 53).length(100 + random(1_000) as usize).bytes())
    };
    (0..12_000).map(&mut packet).collect()
}

fn at(time: u64) -> Duration {
    Duration::from_secs(START) + Duration::from_nanos(time)
}

fn pcap(packets: &[Sent], snaplen: usize) -> Vec<u8> {
    let header = PcapHeader {
        snaplen: snaplen as u32,
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        endianness: Endianness::Big,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (time, _, frame) in packets {
        let captured = &frame[..frame.len().min(snaplen)];
        writer.write_packet(&PcapPacket::new(at(*time), frame.len() as u32, captured)).unwrap();
    }
    writer.into_writer()
}

/// The same packets, and between them some that the host has sent.
fn pcapng(packets: &[Sent]) -> Vec<u8> {
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), Endianness::Little).unwrap();
    let options = vec![InterfaceDescriptionOption::IfTsResol(9)];
    let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: SNAPLEN as u32, options };
    writer.write_pcapng_block(interface).unwrap();
    for (number, (time, _, frame)) in packets.iter().enumerate() {
        let packet = |options| EnhancedPacketBlock {
            interface_id: 0,
            timestamp: at(*time),
            original_len: frame.len() as u32,
            data: frame[..frame.len().min(SNAPLEN)].into(),
            options,
        };
        writer.write_pcapng_block(packet(Vec::new())).unwrap();
        if number % 100 == 0 {
            writer.write_pcapng_block(packet(vec![EnhancedPacketOption::Flags(2)])).unwrap();
        }
    }
    writer.into_inner()
}

/// Returns packets and passed packets of each source by the definition of the limits.
fn expected(packets: &[Sent]) -> BTreeMap<String, [u64; 2]> {
    let second = |amount| Rate { amount, period: SECOND };
    let mut models = BTreeMap::new();
    let mut fates = BTreeMap::new();
    for (time, source, frame) in packets {
        let (name, is_denied) = match source {
            IpAddr::V6(address) if address.segments()[4] == 3 => ("2001:db8:1:2:3::/80".to_owned(), true),
            IpAddr::V6(_) => ("2001:db8:1:2::/64".to_owned(), false),
            // Its rule ends after ten seconds.
            IpAddr::V4(address) => (address.to_string(), address.octets()[2] == 3 && *time < 10 * SECOND),
        };
        let of_bytes = name.starts_with("10.9.2.");
        let new = || -> Box<dyn Definition> {
            match &*name {
                "10.9.2.1" => Box::new(Tokens::full(second(50_000), 20 * 1_514)),
                "10.9.4.1" => Box::new(Fixed::new(20, SECOND)),
                _ => Box::new(Tokens::full(second(100), 20)),
            }
        };
        let model = models.entry(name.clone()).or_insert_with(new);
        let amount = if of_bytes { frame.len() as u64 } else { 1 };
        let passes = !is_denied && model.fits(*time, amount);
        if passes {
            model.take(*time, amount);
        }
        let fate: &mut [u64; 2] = fates.entry(name).or_default();
        fate[0] += 1;
        fate[1] += u64::from(passes);
    }
    fates
}

fn shown(report: &Value) -> BTreeMap<String, [u64; 2]> {
    let packets = |row: &Value, which: &str| row[which]["packets"].as_u64().unwrap();
    let rows = report["worst"].as_array().unwrap();
    rows.iter()
        .map(|row| (row["source"].as_str().unwrap().to_owned(), [packets(row, "all"), packets(row, "passed")]))
        .collect()
}

fn replay(ratelimit: &Ratelimit<'_>, folder: &Folder, file: &Path) -> Value {
    ratelimit.json(&format!("replay {} -c {}", file.display(), folder.file().display()))
}

#[test]
fn a_capture_is_judged_as_the_limits_are_defined_and_nothing_else_changes() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, packets) = (Folder::new(), packets());
    folder.write(CONFIG);
    ratelimit.ok("attach eth0 --packets 1/h");
    let before = ratelimit.json("sources");
    let (file, expected) = (folder.add("day.pcap", ""), expected(&packets));
    fs::write(&file, pcap(&packets, SNAPLEN)).unwrap();
    let report = replay(&ratelimit, &folder, &file);
    assert_eq!(shown(&report), expected);
    let bytes: usize = packets.iter().map(|(.., frame)| frame.len()).sum();
    assert_eq!(report["total"]["all"], json!({ "packets": packets.len(), "bytes": bytes }));
    assert_eq!(
        [&report["start"], &report["notes"]],
        [&json!(jiff::Timestamp::new(START as i64, (packets[0].0) as i32).unwrap().to_string()), &json!([])]
    );
    let reasons: BTreeMap<_, _> = report["total"]["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (of["reason"].as_str().unwrap(), of["packets"].as_u64().unwrap()))
        .collect();
    assert_eq!(reasons.keys().copied().collect::<Vec<_>>(), ["denied", "over-bytes", "over-packets"]);
    assert_eq!(report["total"]["dropped"]["packets"], reasons.values().sum::<u64>());

    // pcapng has the direction of packets.
    fs::write(&file, pcapng(&packets)).unwrap();
    let other = replay(&ratelimit, &folder, &file);
    assert_eq!(
        (&other["total"], &other["worst"], &other["outgoing"]),
        (&report["total"], &report["worst"], &json!(120))
    );

    // With cells, the same holds to a packet.
    folder.write(&CONFIG.replace("front = \"off\"\n", ""));
    for (source, [all, passed]) in shown(&replay(&ratelimit, &folder, &file)) {
        let [of_model, passed_model] = expected[&source];
        assert!(all == of_model && passed.abs_diff(passed_model) <= 1, "{source}: {passed}, not {passed_model}");
    }
    assert_eq!(ratelimit.json("sources"), before);
    ratelimit.ok("detach --all");

    // It needs no instance. The end of a capture can be missing.
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 30]).unwrap();
    let text = ratelimit.ok(&format!("replay {} -c {} --top 2", file.display(), folder.file().display()));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].starts_with("SOURCE") && lines[5] == "5 more" && lines[6].starts_with("all "), "{text}");
    // Numbers end where the names of their columns end.
    let end = lines[2].find("PACKETS").unwrap() + "PACKETS".len();
    let ends = |line: &&str| line[..end].ends_with(|last: char| last.is_ascii_digit()) && line[end..].starts_with("  ");
    assert!([lines[3], lines[4], lines[6]].iter().all(ends), "{text}");
    assert!(text.ends_with("the capture ends within a packet, which is left out\n"), "{text}");
    fs::write(&file, pcap(&[], SNAPLEN)).unwrap();
    let text = ratelimit.ok(&format!("replay {} -c {}", file.display(), folder.file().display()));
    assert!(text.contains("\nthe capture has no packet: `tcpdump -i NAME -Q in -s 128 -w FILE` captures "), "{text}");
    for (content, problem) in
        [(&b""[..], "is empty"), (b"no capture at all", "is no capture"), (&[0; 4_096], "is no capture")]
    {
        fs::write(&file, content).unwrap();
        let line = ratelimit.fails(&format!("replay {} -c {}", file.display(), folder.file().display()));
        assert!(line.contains(&format!("day.pcap {problem}: ")), "{line}");
    }
}

/// Returns the answer of the host to an IPv4 packet.
fn answer((time, _, frame): &Sent) -> Sent {
    let (sender, receiver) = (26..30, 30..34);
    let host: [u8; 4] = frame[receiver.clone()].try_into().unwrap();
    let answer = [&frame[..sender.start], &frame[receiver.clone()], &frame[sender], &frame[receiver.end..]].concat();
    (time + 1, IpAddr::from(host), answer)
}

#[test]
fn what_a_capture_or_a_file_lacks_is_said() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, packets) = (Folder::new(), packets());
    folder.write(CONFIG);
    let file = folder.add("day.pcap", "");
    fs::write(&file, pcap(&packets, SNAPLEN)).unwrap();
    let report = replay(&ratelimit, &folder, &file);

    // Packets of the host would take from limits of their own.
    let both = |(number, packet): (usize, &Sent)| match number % 10 == 0 && packet.1.is_ipv4() {
        true => vec![packet.clone(), answer(packet)],
        false => vec![packet.clone()],
    };
    let both: Vec<Sent> = packets.iter().enumerate().flat_map(both).collect();
    let (answers, host) = (both.len() - packets.len(), answer(packets.iter().find(|sent| sent.1.is_ipv4()).unwrap()).1);
    fs::write(&file, pcap(&both, SNAPLEN)).unwrap();
    let mixed = replay(&ratelimit, &folder, &file);
    let [note] = &mixed["notes"].as_array().unwrap()[..] else { panic!("{mixed}") };
    let words = [format!("`--host {host}`"), format!(": {answers} packets.")];
    assert!(answers > 100 && words.iter().all(|words| note.as_str().unwrap().contains(words)), "{note}");
    let words = format!("replay {} -c {} --host {host}", file.display(), folder.file().display());
    let incoming = ratelimit.json(&words);
    assert_eq!([&incoming["total"], &incoming["worst"]], [&report["total"], &report["worst"]]);
    assert_eq!(
        [&incoming["outgoing"], &incoming["notes"]],
        [&json!(answers), &json!([format!("sent by the host, and not judged: {answers} packets")])]
    );

    // 24 bytes end before the sender.
    fs::write(&file, pcap(&packets[..50], 24)).unwrap();
    let short = replay(&ratelimit, &folder, &file);
    assert_eq!([&short["total"]["all"]["packets"], &short["without_addresses"]], [&json!(0), &json!(50)]);
    assert!(short["notes"][0].as_str().unwrap().starts_with("captured without their addresses"), "{short}");

    // A capture can claim any length. The bytes are those that the program got.
    let mut writer = PcapWriter::new(Vec::new()).unwrap();
    writer.write_packet(&PcapPacket::new(at(0), u32::MAX, &packets[0].2)).unwrap();
    fs::write(&file, writer.into_writer()).unwrap();
    let huge = replay(&ratelimit, &folder, &file);
    assert!(huge["total"]["all"]["bytes"].as_u64().unwrap() < 66_000, "{huge}");
    assert!(huge["notes"][1].as_str().unwrap().ends_with("and shortened: 1 packet"), "{huge}");

    // Without times, rules are those of now. The deny of this source has ended.
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), Endianness::Little).unwrap();
    let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options: Vec::new() };
    writer.write_pcapng_block(interface).unwrap();
    let data = Frame::udp([10, 9, 3, 1], 53).bytes();
    for _ in 0..5 {
        let block = SimplePacketBlock { original_len: data.len() as u32, data: (&data[..]).into() };
        writer.write_pcapng_block(block).unwrap();
    }
    fs::write(&file, writer.into_inner()).unwrap();
    let timeless = replay(&ratelimit, &folder, &file);
    assert_eq!([&timeless["start"], &timeless["total"]["passed"]["packets"]], [&Value::Null, &json!(5)]);
    let notes = timeless["notes"].as_array().unwrap();
    assert!(notes.len() == 2 && notes[1].as_str().unwrap().starts_with("the first packet has no time"), "{notes:?}");

    // An elastic limit needs a capacity, which can be another interface's.
    fs::write(&file, pcap(&packets[..50], SNAPLEN)).unwrap();
    let list = folder.add("feed.txt", "10.9.1.1\n");
    let interfaces = "interfaces = [\"eth0\", \"eth1\"]\n";
    let policy = "[policy.room]\npackets = \"10/s\"\nthrottle = \"elastic\"\n";
    let list = format!("[[list]]\nname = \"feed\"\nfile = \"{}\"\naction = \"room\"\n", list.display());
    folder.write(&format!("{interfaces}{policy}{list}"));
    let words = format!("replay {} -c {} --interface eth0", file.display(), folder.file().display());
    let line = ratelimit.fails(&words);
    assert!(line.contains("capacity"), "{line}");
    folder.write(&format!("{interfaces}[interface.eth1]\ncapacity = \"5000/s\"\n{policy}{list}"));
    assert_eq!(ratelimit.json(&words)["total"]["all"]["packets"], 50);
}

/// Zeroes in place of what was not captured would be other packets: a SYN without its flags is one of an open connection.
#[test]
fn packets_are_judged_only_if_what_the_rules_need_was_captured() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let file = folder.add("syn.pcap", "");
    let syns = |source: IpAddr| -> Vec<Sent> {
        (0..200).map(|number| (number * 15_000_000, source, Frame::syn(source, 443).bytes())).collect()
    };
    let limits = "[default]\npackets = \"20/s\"\n";
    let syn = format!("interfaces = []\n{limits}[service.tcp-syn]\npackets = \"10/s\"\n");
    for (source, snaplens, ports) in
        [("2001:db8:1::9", [128, 68, 67, 64, 54], 58), ("203.0.113.7", [128, 48, 47, 42, 34], 38)]
    {
        let packets = syns(source.parse().unwrap());
        let judged = |config: &str, snaplen: usize| {
            folder.write(config);
            fs::write(&file, pcap(&packets, snaplen)).unwrap();
            let report = replay(&ratelimit, &folder, &file);
            let lost = report["without_headers"].as_u64().unwrap();
            let notes = report["notes"].as_array().unwrap();
            let says = notes.iter().any(|note| note.as_str().unwrap().contains("without headers that the rules need"));
            assert_eq!(says, lost != 0, "{report}");
            let [passed, dropped] = ["passed", "dropped"].map(|key| report["total"][key]["packets"].as_u64().unwrap());
            assert_eq!(passed + dropped + lost, 200, "{report}");
            (dropped, lost)
        };
        let of_syn = snaplens.map(|snaplen| judged(&syn, snaplen));
        let all = judged(&syn, 256);
        assert!(all.0 > 140 && all.1 == 0, "{source}: {all:?}");
        assert_eq!(of_syn, [all, all, (0, 200), (0, 200), (0, 200)], "{source}");
        // Without rules for services, only the addresses matter.
        let plain = format!("interfaces = []\n{limits}");
        let whole = judged(&plain, 128);
        assert_eq!((judged(&plain, snaplens[4]), whole.1), (whole, 0), "{source}");
        // Ports alone are enough for a rule of a port.
        let port = format!("{plain}[service.\"tcp/443\"]\npackets = \"10/s\"\n");
        let whole = judged(&port, 128);
        assert_eq!([ports, ports - 1].map(|snaplen| judged(&port, snaplen)), [whole, (0, 200)], "{source}");
        assert_ne!(whole.0, 0);
    }
}
