//! The list of the captures, which a test compares with the files.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result};

use crate::scene::SCENES;

const HEAD: &str = "\
# Captures

Frames of real programs and of the kernel's own protocols, for the tests. Each file has every frame that passed the \
victim's interface in a sandbox of `ratelimit-tests`, both ways, in the order in which they passed: classic pcap, \
Ethernet, no frame is cut, segmentation and checksums are not left to a network card. Like all frames on a veth, short \
ones are not padded to 60 bytes.

| file | frames | made by | contents |
|---|---|---|---|
";

const TAIL: &str = "
`captures` stands for sockets of the program that makes the files, this one too:

    apt-get install bind9-dnsutils dnsmasq-base ethtool iproute2 iputils-ping
    cargo run -p ratelimit-tests --bin captures

It must run as root, and all traffic stays in namespaces of its own. Addresses are those of `tests/src/sandbox.rs`. \
The numbers of frames may change a little from one kernel to the next: TCP decides by the clock when to acknowledge.
";

/// Writes it, with the number of frames of each scene.
pub(crate) fn write(path: &Path, counts: &[usize]) -> Result<()> {
    let mut text = HEAD.to_owned();
    for (scene, frames) in SCENES.iter().zip(counts) {
        writeln!(text, "| `{}` | {frames} | {} | {} |", scene.file, scene.by, scene.contents)?;
    }
    text.push_str(TAIL);
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
