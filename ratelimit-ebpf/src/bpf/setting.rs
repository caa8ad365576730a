//! A constant in the instructions of the program.

/// The constant with this number. On a host it is `HOST`, for unit tests.
pub struct Setting<const NUMBER: u32, const HOST: u32 = 0>;

impl<const NUMBER: u32, const HOST: u32> Setting<NUMBER, HOST> {
    /// Returns the constant.
    #[inline(always)]
    #[must_use]
    pub fn load(&self) -> u32 {
        #[cfg(target_arch = "bpf")]
        {
            let value: u64;
            // SAFETY: the instruction writes one register, which is the result.
            unsafe {
                core::arch::asm!("{0} = {1}", out(reg) value, const NUMBER, options(nomem, nostack, preserves_flags));
            }
            value as u32
        }
        #[cfg(not(target_arch = "bpf"))]
        HOST
    }
}

/// Returns whether a feature is on.
#[inline(always)]
#[must_use]
pub fn is_on<const NUMBER: u32, const HOST: u32>(setting: &Setting<NUMBER, HOST>) -> bool {
    setting.load() != 0
}
