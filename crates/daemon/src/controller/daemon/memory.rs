//! Returns the memory that a file needed to the system, so that the daemon stays small between reloads.

/// Bytes from which on an allocation is a mapping of its own, which ends with it.
#[cfg(target_env = "gnu")]
const MAPPING: libc::c_int = 128 * 1024;

/// Keeps large allocations off the heap, and all threads on one heap. The C library would raise the bound after the first
/// large allocation, and give each thread a heap. Small allocations behind large ones then keep their pages.
pub(super) fn limit_heap() {
    // SAFETY: the calls set parameters of the allocator only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPING);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Returns unused pages of the heap.
pub(super) fn release() {
    // SAFETY: the call frees unused memory only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
