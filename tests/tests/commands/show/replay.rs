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
        },
    },
};
use ratelimit_common::limits::limit::{Rate, SECOND};
use ratelimit_tests::{
    Folder, Frame, Ratelimit, Sandbox,
    models::{Definition, Fixed, Tokens},
};
use serde_json::{Value, json};

const CONFIG: &str = "\
interfaces = [\"eth0\"]
[settings]
front = \"off\"
own = \"off\"
[default]
packets = \"100/s\"
burst = 20
[[rule]]
source = \"10.9.2.0/24\"
bytes = \"50kB/s\"
burst = 20
[[rule]]
source = \"2001:db8:1:2:3::/80\"
policy = \"deny\"
[[rule]]
source = \"10.9.4.1\"
packets = \"20/s\"
algorithm = \"fixed-window\"
[[rule]]
source = \"10.9.3.0/24\"
policy = \"deny\"
until = 2024-01-01T00:00:10Z
";

/// 2024-01-01T00:00:00Z.
const START: u64 = 1_704_067_200;

/// Captured bytes of a packet.
const SNAPLEN: usize = 96;

/// A packet: nanoseconds since the start, its sender, and its whole frame.
type Sent = (u64, IpAddr, Vec<u8>);

/// Returns packets of seven sources over some seconds, from a seed.
fn packets() -> Vec<Sent> {
    let sources =
        ["10.9.0.1", "10.9.4.1", "10.9.0.2", "10.9.2.1", "10.9.3.1", "2001:db8:1:2:3::1", "2001:db8:1:2:4::1"];
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

fn pcap(packets: &[Sent]) -> Vec<u8> {
    let header = PcapHeader {
        snaplen: SNAPLEN as u32,
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        endianness: Endianness::Big,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (time, _, frame) in packets {
        let captured = &frame[..frame.len().min(SNAPLEN)];
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
    fs::write(&file, pcap(&packets)).unwrap();
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
    assert!(text.ends_with("the capture ends within a packet, which is left out\n"), "{text}");
    for (content, problem) in
        [(&b""[..], "is empty"), (b"no capture at all", "is no capture"), (&[0; 4_096], "is no capture")]
    {
        fs::write(&file, content).unwrap();
        let line = ratelimit.fails(&format!("replay {} -c {}", file.display(), folder.file().display()));
        assert!(line.contains(&format!("day.pcap {problem}: ")), "{line}");
    }
}
