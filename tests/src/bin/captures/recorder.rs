//! Records every frame that the victim's interface receives or sends.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result};
use pcap_file::{
    Endianness,
    pcap::{PcapHeader, PcapPacket, PcapWriter},
};
use ratelimit_tests::{PEER_LINK, Sandbox, VICTIM_LINK, send_raw};
use rustix::{
    fs::Timespec,
    io::Errno,
    ioctl::{Getter, ioctl},
    net::{AddressFamily, RecvFlags, SocketType, netdevice::name_to_index, recv, socket, sockopt},
};

/// Longer than any frame.
const SNAPLEN: usize = 65_535;
/// Many times the size of any scene, so that no frame is lost.
const BUFFER: usize = 16 << 20;
/// Maximum wait for the next frame.
const PATIENCE: Duration = Duration::from_secs(10);
/// The last frame, which is not kept. Its type is reserved for experiments.
const MARK: [u8; 18] = *b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x88\xb5mark";

/// A frame, and its time since 1970.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) time: Duration,
    pub(crate) bytes: Vec<u8>,
}

/// Records frames from its creation on.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    sandbox: &'a Sandbox,
    socket: OwnedFd,
    frames: Vec<Frame>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn start(sandbox: &'a Sandbox) -> Result<Self> {
        let socket = sandbox.victim(open).context("cannot open a packet socket")?;
        Ok(Self { sandbox, socket, frames: Vec::new() })
    }

    /// Waits for a frame that is `wanted`, after those of earlier waits.
    pub(crate) fn wait_for(&mut self, name: &str, wanted: impl Fn(&[u8]) -> bool) -> Result<()> {
        loop {
            let frame = next(&self.socket).with_context(|| format!("no frame of {name} arrived"))?;
            let found = wanted(&frame.bytes);
            self.frames.push(frame);
            if found {
                return Ok(());
            }
        }
    }

    /// Returns all recorded frames.
    pub(crate) fn stop(mut self) -> Result<Vec<Frame>> {
        self.sandbox.peer(|| send_raw(PEER_LINK, &MARK, 1));
        self.wait_for("the mark", |frame| frame == MARK)?;
        self.frames.pop();
        Ok(self.frames)
    }
}

/// Writes a capture and returns its size.
pub(crate) fn write(path: &Path, frames: &[Frame]) -> Result<u64> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    // Ethernet and the snaplen are the defaults.
    let header = PcapHeader { endianness: Endianness::Little, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(file, header)?;
    for Frame { time, bytes } in frames {
        writer.write_packet(&PcapPacket::new(*time, bytes.len() as u32, bytes))?;
    }
    Ok(writer.into_writer().metadata()?.len())
}

/// Opens a socket that receives every frame of the victim's interface.
fn open() -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::PACKET, SocketType::RAW, None)?;
    sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    // SAFETY: all zeroes are a valid `struct sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = name_to_index(&socket, VICTIM_LINK)? as i32;
    // A first request for the time makes the kernel record it for every frame.
    let _ = time(&socket);
    // SAFETY: the address is readable for its length.
    let bound = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
    };
    if bound == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

fn next(socket: &OwnedFd) -> Result<Frame> {
    let mut bytes = vec![0; SNAPLEN];
    let (_, length) = recv(socket, &mut bytes[..], RecvFlags::TRUNC)?;
    bytes.truncate(length);
    Ok(Frame { time: time(socket)?, bytes })
}

/// Returns the time of the last frame that was read.
fn time(socket: &OwnedFd) -> Result<Duration, Errno> {
    /// `SIOCGSTAMPNS_OLD`
    const STAMP: rustix::ioctl::Opcode = 0x8907;
    // SAFETY: the command writes a `struct timespec`.
    let time: Timespec = unsafe { ioctl(socket, Getter::<STAMP, Timespec>::new()) }?;
    Ok(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32))
}
