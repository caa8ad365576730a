//! An empty program that benchmarks compare with.

use aya::{Ebpf, programs::Xdp};
use ratelimit_sandbox::OBJECT;

/// An XDP program that only drops every packet, on no interface.
pub struct Empty(Ebpf);

impl Empty {
    /// Loads the program.
    ///
    /// # Panics
    ///
    /// If the kernel refuses it, for example without root.
    #[must_use]
    pub fn load() -> Self {
        let mut ebpf = Ebpf::load(OBJECT).expect("cannot load the kernel side of the tests");
        let program: &mut Xdp = ebpf.program_mut("empty").unwrap().try_into().unwrap();
        program.load().expect("the kernel refuses the program");
        Self(ebpf)
    }

    /// Returns the program.
    ///
    /// # Panics
    ///
    /// Never, since the program is loaded.
    #[must_use]
    pub fn program(&self) -> &Xdp {
        self.0.program("empty").unwrap().try_into().unwrap()
    }
}
