//! Frames of real programs, recorded by the binary `captures`. `data/README.md` lists them.

use std::{
    env,
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
};

use pcap_file::{DataLink, pcap::PcapReader};

/// One recording.
#[derive(Debug, Clone)]
pub struct Capture {
    /// File name without `.pcap`.
    pub name: String,
    /// All frames in full, in their order on the wire.
    pub frames: Vec<Vec<u8>>,
}

/// Returns all recordings by name. They are read from the folder `data` beside the running program, as in a virtual
/// machine, or else from the source tree.
///
/// # Panics
///
/// If there are none, or a file is damaged.
#[must_use]
pub fn captures() -> Vec<Capture> {
    let folder = folder();
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("cannot list the captures").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "pcap"));
    files.sort();
    assert!(!files.is_empty(), "no captures in {}", folder.display());
    files.iter().map(|file| read(file)).collect()
}

fn folder() -> PathBuf {
    let beside = env::current_exe().expect("this program has no path").with_file_name("data");
    if beside.is_dir() { beside } else { PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data")) }
}

fn read(path: &Path) -> Capture {
    let damaged = |error| -> ! { panic!("{} is damaged: {error}", path.display()) };
    let file = File::open(path).unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
    let mut reader = PcapReader::new(BufReader::new(file)).unwrap_or_else(|error| damaged(error));
    assert_eq!(reader.header().datalink, DataLink::ETHERNET, "{} is not of Ethernet", path.display());
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap_or_else(|error| damaged(error));
        assert_eq!(packet.orig_len as usize, packet.data.len(), "a frame in {} is cut", path.display());
        frames.push(packet.data.into_owned());
    }
    assert!(!frames.is_empty(), "{} is empty", path.display());
    Capture { name: path.file_stem().unwrap().to_string_lossy().into_owned(), frames }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use etherparse::{EtherType, Ethernet2Slice};

    use super::*;

    #[test]
    fn every_frame_is_of_ethernet() {
        for Capture { name, frames } in captures() {
            for (number, frame) in (1..).zip(&frames) {
                let ethernet = Ethernet2Slice::from_slice_without_fcs(frame);
                let ether_type =
                    ethernet.unwrap_or_else(|error| panic!("{name}, frame {number}: {error}")).ether_type();
                let known = [EtherType::IPV4, EtherType::IPV6, EtherType::ARP].contains(&ether_type);
                assert!(known, "{name}, frame {number}: {ether_type:?}");
            }
        }
    }

    #[test]
    fn the_readme_counts_them_right() {
        let readme = fs::read_to_string(folder().join("README.md")).expect("cannot read the README");
        let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(".pcap` | "));
        let told: BTreeMap<_, usize> = rows
            .map(|(name, rest)| {
                (name.to_owned(), rest.split(' ').next().unwrap().parse().expect("no number of frames"))
            })
            .collect();
        let found: BTreeMap<_, _> =
            captures().into_iter().map(|Capture { name, frames }| (name, frames.len())).collect();
        assert_eq!(told, found);
    }
}
