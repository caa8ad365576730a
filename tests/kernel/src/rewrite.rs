//! Replaces the source of a frame.

use aya_ebpf::{Global, programs::XdpContext};

/// Large enough for every header.
pub(crate) type Head = [u64; 16];

/// Offset of the 32 bits in which sources differ.
#[unsafe(no_mangle)]
static SOURCE_AT: Global<u32> = Global::new(0);

/// Offset of the header checksum that covers the source; 0 is none.
#[unsafe(no_mangle)]
static HEADER_CHECKSUM_AT: Global<u32> = Global::new(0);
/// Offset of the transport checksum that covers the source; 0 is none.
#[unsafe(no_mangle)]
static TRANSPORT_CHECKSUM_AT: Global<u32> = Global::new(0);

/// Writes the frame's beginning in whole words.
#[inline(always)]
pub(crate) fn restore(ctx: &XdpContext, head: &Head) {
    for (index, word) in head.iter().enumerate() {
        let Some(field) = at::<u64>(ctx, (index * size_of::<u64>()) as u32) else { return };
        // SAFETY: `at` has checked that the bytes lie within the frame.
        unsafe { field.write_unaligned(*word) };
    }
}

/// Writes the source and updates the checksums by the difference to the first source.
#[inline(always)]
pub(crate) fn set_source(ctx: &XdpContext, source: u32) -> Option<()> {
    let field = at::<[u8; 4]>(ctx, SOURCE_AT.load())?;
    // SAFETY: `at` has checked that the bytes lie within the frame.
    let old = u32::from_be_bytes(unsafe { field.read_unaligned() });
    // SAFETY: as above.
    unsafe { field.write_unaligned(source.to_be_bytes()) };
    for offset in [HEADER_CHECKSUM_AT.load(), TRANSPORT_CHECKSUM_AT.load()] {
        if offset != 0 {
            let field = at::<[u8; 2]>(ctx, offset)?;
            // SAFETY: as above.
            let checksum = u16::from_be_bytes(unsafe { field.read_unaligned() });
            // SAFETY: as above.
            unsafe { field.write_unaligned(adjusted(checksum, old, source).to_be_bytes()) };
        }
    }
    Some(())
}

/// Returns the checksum after `old` became `new` in the data that it covers (RFC 1624).
#[inline(always)]
fn adjusted(checksum: u16, old: u32, new: u32) -> u16 {
    let halves = |word: u32| (word >> 16) + (word & 0xffff);
    let mut sum = u32::from(!checksum) + halves(!old) + halves(new);
    sum = halves(sum);
    sum = halves(sum);
    // Both zeros are valid, but a UDP checksum of 0 means none.
    if sum == 0xffff { 0xffff } else { !sum as u16 }
}

/// Returns the `T` at `offset` if it lies within the frame.
#[inline(always)]
pub(crate) fn at<T>(ctx: &XdpContext, offset: u32) -> Option<*mut T> {
    let start = ctx.data() + offset as usize;
    (start + size_of::<T>() <= ctx.data_end()).then_some(start as *mut T)
}
