//! The TCP segments that answers with SYN cookies offer. They depend on the routes.

use ratelimit_common::maps::control::{Control, FEATURE_PROVE_TCP};

use crate::{
    Error,
    attach::attachment::{Attachment, Attachments},
    instance::swap::pinned::Pinned,
    sys::netlink::segments,
};

/// Makes answers offer what the routes accept by now.
pub fn renew(pinned: &mut Pinned) -> Result<(), Error> {
    let control = pinned.tables.control()?;
    let segments = by_now(&control, &pinned.attachments)?;
    if segments == control.segments { Ok(()) } else { pinned.tables.set_control(&Control { segments, ..control }) }
}

/// Does the same for a command. Its own work is no failure if this is one, and the daemon tries again.
pub(super) fn try_renew(pinned: &mut Pinned) {
    let _ = renew(pinned);
}

/// Returns what [`Control::segments`] should be. A family stays as it is if the kernel does not list its routes. Both stay
/// without SYN cookies, and if an interface is in another network namespace, which has other routes.
pub(super) fn by_now(control: &Control, attachments: &Attachments) -> Result<[u32; 2], Error> {
    let is_elsewhere = |attachment: &Attachment| attachment.mode.is_none() && !attachment.is_gone;
    if control.features & FEATURE_PROVE_TCP == 0 || attachments.list()?.iter().any(is_elsewhere) {
        return Ok(control.segments);
    }
    let [over_ipv4, over_ipv6] = segments::accepted();
    Ok([over_ipv4.unwrap_or(control.segments[0]), over_ipv6.unwrap_or(control.segments[1])])
}
