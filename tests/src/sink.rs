//! Another XDP program than ours on an interface of the victim.

use std::path::Path;

use aya::{
    Ebpf,
    maps::PerCpuArray,
    programs::{Xdp, XdpMode, links::FdLink, xdp::XdpLink},
};

use crate::{OBJECT, Sandbox};

/// A program that counts every packet and then drops it or lets it pass. Detached on drop.
#[derive(Debug)]
pub struct Sink {
    ebpf: Ebpf,
    name: &'static str,
    link: Option<XdpLink>,
}

impl Sink {
    /// Attaches the program that drops: the fastest that a receiver can be.
    ///
    /// # Panics
    ///
    /// If `link` has a program already.
    #[must_use]
    pub fn dropping(sandbox: &Sandbox, link: &str) -> Self {
        Self::attach(sandbox, link, "drop")
    }

    /// Attaches the program that lets pass.
    ///
    /// # Panics
    ///
    /// If `link` has a program already.
    #[must_use]
    pub fn passing(sandbox: &Sandbox, link: &str) -> Self {
        Self::attach(sandbox, link, "pass")
    }

    fn attach(sandbox: &Sandbox, link: &str, name: &'static str) -> Self {
        let mut ebpf = Ebpf::load(OBJECT).expect("cannot load the kernel side of the tests");
        let program: &mut Xdp = ebpf.program_mut(name).unwrap().try_into().unwrap();
        program.load().expect("the kernel refuses the program");
        // The loopback interface has no driver to run in.
        let mode = if link == "lo" { XdpMode::Skb } else { XdpMode::Driver };
        let link = sandbox.victim(|| program.attach(link, mode)).expect("cannot attach");
        let link = program.take_link(link).unwrap();
        Self { ebpf, name, link: Some(link) }
    }

    /// Packets that arrived.
    ///
    /// # Panics
    ///
    /// Never, while the program is loaded.
    #[must_use]
    pub fn received(&self) -> u64 {
        let counter: PerCpuArray<_, u64> = self.ebpf.map("RECEIVED").unwrap().try_into().unwrap();
        counter.get(&0, 0).unwrap().iter().sum()
    }

    /// Pins the program's link, from within the victim's namespace: from then on it stays attached until that pin goes.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn pin(&mut self, path: impl AsRef<Path>) {
        let link: FdLink = self.link.take().expect("already pinned").try_into().expect("the link is a BPF link");
        link.pin(path).expect("cannot pin");
    }

    /// Pins the program itself, from within the victim's namespace, for other tools to attach.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn pin_program(&mut self, path: impl AsRef<Path>) {
        let program: &mut Xdp = self.ebpf.program_mut(self.name).unwrap().try_into().unwrap();
        program.pin(path).expect("cannot pin");
    }

    /// Identifies the program while it is loaded.
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
