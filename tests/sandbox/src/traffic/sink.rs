//! Other XDP programs on an interface.

use std::{
    io,
    net::Ipv4Addr,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    path::Path,
};

use aya::{
    Ebpf, EbpfLoader,
    maps::PerCpuArray,
    programs::{
        Xdp, XdpMode,
        links::FdLink,
        xdp::{XdpLink, XdpLinkId},
    },
};

use crate::{OBJECT, PEER_LINK, Sandbox};

/// A program that counts every packet and then drops it or passes it. Detached on drop.
#[derive(Debug)]
pub struct Sink {
    ebpf: Ebpf,
    name: &'static str,
    link: Option<Attached>,
}

impl Sink {
    /// Attaches the dropping program, the fastest possible receiver.
    ///
    /// # Panics
    ///
    /// If `link` already has a program.
    #[must_use]
    pub fn dropping(sandbox: &Sandbox, link: &str) -> Self {
        Self::attach(link, "drop", &[], |attach| sandbox.victim(attach))
    }

    /// Attaches a dropping program that touches one line of a large array for each packet.
    ///
    /// # Panics
    ///
    /// If `link` already has a program.
    #[must_use]
    pub fn touching_one_line(sandbox: &Sandbox, link: &str) -> Self {
        Self::attach(link, "one_line", &[], |attach| sandbox.victim(attach))
    }

    /// Attaches the passing program.
    ///
    /// # Panics
    ///
    /// If `link` already has a program.
    #[must_use]
    pub fn passing(sandbox: &Sandbox, link: &str) -> Self {
        Self::attach(link, "pass", &[], |attach| sandbox.victim(attach))
    }

    /// Attaches the passing program to the peer's link. Without a program, that link takes nothing that the victim's
    /// program sends back.
    ///
    /// # Panics
    ///
    /// If that link already has a program.
    #[must_use]
    pub fn at_the_peer(sandbox: &Sandbox) -> Self {
        Self::attach(PEER_LINK, "pass", &[], |attach| sandbox.peer(attach))
    }

    /// Attaches a program that passes frames from `clients`, an address and the length of its prefix, and drops and
    /// counts all others.
    ///
    /// # Panics
    ///
    /// If `link` already has a program.
    #[must_use]
    pub fn passing_from(sandbox: &Sandbox, link: &str, clients: (Ipv4Addr, u32)) -> Self {
        Self::attach(link, "only_clients", &only_clients(SOURCE_AT, clients), |attach| sandbox.victim(attach))
    }

    /// Attaches the same program, but each other frame touches one line of a large array before it is dropped.
    ///
    /// # Panics
    ///
    /// If `link` already has a program.
    #[must_use]
    pub fn touching_one_line_except_from(sandbox: &Sandbox, link: &str, clients: (Ipv4Addr, u32)) -> Self {
        let globals = only_clients(SOURCE_AT, clients);
        Self::attach(link, "only_clients_one_line", &globals, |attach| sandbox.victim(attach))
    }

    /// Attaches the program `only_clients` to the peer's link, for frames to `clients`.
    ///
    /// # Panics
    ///
    /// If that link already has a program.
    #[must_use]
    pub fn passing_to(sandbox: &Sandbox, clients: (Ipv4Addr, u32)) -> Self {
        Self::attach(PEER_LINK, "only_clients", &only_clients(DESTINATION_AT, clients), |attach| sandbox.peer(attach))
    }

    fn attach(
        link: &str,
        name: &'static str,
        globals: &[(&str, u32)],
        inside: impl FnOnce(Attach<'_>) -> XdpLinkId,
    ) -> Self {
        let mut loader = EbpfLoader::new();
        for (name, value) in globals {
            loader.override_global(name, value, true);
        }
        let mut ebpf = loader.load(OBJECT).expect("cannot load the kernel side of the tests");
        let program: &mut Xdp = ebpf.program_mut(name).unwrap().try_into().unwrap();
        program.load().expect("the kernel refuses the program");
        // The loopback interface has no driver.
        let mode = if link == "lo" { XdpMode::Skb } else { XdpMode::Driver };
        let link = inside(Box::new(|| program.attach(link, mode).expect("cannot attach")));
        let link = Attached::of(program.take_link(link).unwrap());
        Self { ebpf, name, link: Some(link) }
    }

    /// Returns the number of received packets.
    ///
    /// # Panics
    ///
    /// Never, while the program is loaded.
    #[must_use]
    pub fn received(&self) -> u64 {
        let counter: PerCpuArray<_, u64> = self.ebpf.map("RECEIVED").unwrap().try_into().unwrap();
        counter.get(&0, 0).unwrap().iter().sum()
    }

    /// Pins the program's link, from within the victim's namespace. It stays attached until the pin is removed.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn pin(&mut self, path: impl AsRef<Path>) {
        let mut attached = self.link.take().expect("already pinned");
        attached.0.take().expect("already pinned").pin(path).expect("cannot pin");
    }

    /// Pins the program, from within the victim's namespace, for other tools to attach.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn pin_program(&mut self, path: impl AsRef<Path>) {
        let program: &mut Xdp = self.ebpf.program_mut(self.name).unwrap().try_into().unwrap();
        program.pin(path).expect("cannot pin");
    }

    /// Returns the id of the program.
    ///
    /// # Panics
    ///
    /// Never, while the program is loaded.
    #[must_use]
    pub fn program_id(&self) -> u32 {
        let program: &Xdp = self.ebpf.program(self.name).unwrap().try_into().unwrap();
        program.info().unwrap().id()
    }
}

/// Offsets of both IPv4 addresses in an untagged Ethernet frame.
const SOURCE_AT: u32 = 26;
const DESTINATION_AT: u32 = 30;

/// Returns the settings of the program `only_clients`.
fn only_clients(address_at: u32, (address, length): (Ipv4Addr, u32)) -> [(&'static str, u32); 3] {
    let mask = u32::MAX.checked_shl(u32::BITS - length).unwrap_or(0);
    [("ADDRESS_AT", address_at), ("CLIENTS", address.to_bits() & mask), ("CLIENTS_MASK", mask)]
}

/// Attaches on a thread of the right namespace.
type Attach<'a> = Box<dyn FnOnce() -> XdpLinkId + Send + 'a>;

/// The attachment of a program, until dropped.
#[derive(Debug)]
pub struct Attached(Option<FdLink>);

impl Attached {
    /// Takes the attachment over.
    ///
    /// # Panics
    ///
    /// If it is of a kernel without BPF links.
    #[must_use]
    pub fn of(link: XdpLink) -> Self {
        Self(Some(link.try_into().expect("the link is a BPF link")))
    }
}

impl Drop for Attached {
    /// Detaches at once. The kernel would do so with the last descriptor of the link, which a process that another test
    /// just started may still hold.
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            let id = link.info().expect("cannot read the link").id();
            let fd = bpf(BPF_LINK_GET_FD_BY_ID, &mut [id, 0, 0]).expect("cannot open the link");
            // SAFETY: the kernel has just created this descriptor for us.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            bpf(BPF_LINK_DETACH, &mut [fd.as_raw_fd().cast_unsigned(), 0, 0]).expect("cannot detach the link");
        }
    }
}

// Numbers from the kernel's include/uapi/linux/bpf.h.
const BPF_LINK_GET_FD_BY_ID: libc::c_long = 30;
const BPF_LINK_DETACH: libc::c_long = 34;

/// Makes a BPF system call whose attributes are plain numbers.
fn bpf(command: libc::c_long, attributes: &mut [u32; 3]) -> io::Result<i32> {
    // SAFETY: the kernel only reads the attributes, which are as long as they say.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
