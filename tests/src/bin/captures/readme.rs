//! The list of the captures, which a test compares with the files.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result};

use crate::scene::SCENES;

const HEAD: &str = "\
# Captures

Frames of real programs and of kernel protocols, for the tests. Each file has every frame that passed the victim's
interface in a sandbox of `ratelimit-tests`, in both directions and in order. The format is classic pcap with Ethernet.
No frame is cut. The kernel does segmentation and checksums itself. A veth does not pad short frames to 60 bytes.

| file | frames | made by | contents |
|---|---|---|---|
";

const TAIL: &str = "
The entry `captures` means sockets of the program that makes the files. To make them again:

```sh
apt-get install bind9-dnsutils dnsmasq-base ethtool iproute2 iputils-ping
cargo run -p ratelimit-tests --bin captures
```

The program must run as root. All traffic stays in its own namespaces. The addresses are those of
`tests/sandbox/src/sandbox/mod.rs`. The numbers of frames can differ between kernels, since TCP acknowledges by time.
";

/// Writes the list with the number of frames of each scene.
pub(crate) fn write(path: &Path, counts: &[usize]) -> Result<()> {
    let mut text = HEAD.to_owned();
    for (scene, frames) in SCENES.iter().zip(counts) {
        writeln!(text, "| `{}` | {frames} | {} | {} |", scene.file, scene.by, scene.contents)?;
    }
    text.push_str(TAIL);
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
