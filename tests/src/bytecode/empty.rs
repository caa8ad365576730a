//! The program that does nothing, for benchmarks to compare with.

use aya::{Ebpf, programs::Xdp};

use crate::OBJECT;

/// An XDP program that drops every packet and does nothing else, on no interface.
pub struct Empty(Ebpf);

impl Empty {
    /// Loads it.
    ///
    /// # Panics
    ///
    /// Where the kernel refuses it, as it does without root's privileges.
    #[must_use]
    pub fn load() -> Self {
        let mut ebpf = Ebpf::load(OBJECT).expect("cannot load the kernel side of the tests");
        let program: &mut Xdp = ebpf.program_mut("empty").unwrap().try_into().unwrap();
        program.load().expect("the kernel refuses the program");
        Self(ebpf)
    }

    /// The program.
    ///
    /// # Panics
    ///
    /// Never: it has been loaded.
    #[must_use]
    pub fn program(&self) -> &Xdp {
        self.0.program("empty").unwrap().try_into().unwrap()
    }
}
