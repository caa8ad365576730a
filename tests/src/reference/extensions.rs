//! IPv6 extension headers as the product parses them, from single steps of etherparse.

use etherparse::{
    IpNumber, Ipv6ExtensionsSlice,
    err::ipv6_exts::{HeaderError, HeaderSliceError},
    ip_number::{AUTH, IPV6_DEST_OPTIONS, IPV6_FRAG, IPV6_HOP_BY_HOP, IPV6_ROUTE},
};

use crate::reference::{
    self, MOST_HEADERS,
    disagreement::{Disagreement, Touched},
    is_later_fragment,
};

/// Minimum length of an extension header.
const SHORTEST: usize = 8;

/// Extension headers that etherparse and the product parse.
const KINDS: [IpNumber; 5] = [IPV6_HOP_BY_HOP, IPV6_ROUTE, IPV6_FRAG, AUTH, IPV6_DEST_OPTIONS];

/// The result of walking the headers.
pub(crate) enum Walked<'a> {
    Payload(IpNumber, &'a [u8]),
    LaterFragment,
    Truncated,
    TooMany,
}

/// Walks the headers from kind `first` on, further than etherparse does by itself.
pub(crate) fn walk<'a>(first: IpNumber, bytes: &'a [u8], touched: &mut Touched) -> Walked<'a> {
    let (mut kind, mut rest, mut headers) = (first, bytes, 0);
    loop {
        let (extensions, next, behind, stop) = Ipv6ExtensionsSlice::from_slice_lax(kind, rest);
        for header in reference::headers(&extensions) {
            headers += 1;
            if headers <= MOST_HEADERS && is_later_fragment(&header) {
                touched.add(Disagreement::BehindLaterFragment);
                return Walked::LaterFragment;
            }
        }
        if headers > MOST_HEADERS {
            return Walked::TooMany;
        }
        (kind, rest) = (next, behind);
        match stop.map(|(error, _)| error) {
            None => return Walked::Payload(kind, rest),
            // etherparse accepts it as the first header of a new walk.
            Some(HeaderSliceError::Content(HeaderError::HopByHopNotAtStart)) => {
                touched.add(Disagreement::HopByHopLater);
            }
            Some(_) if headers == MOST_HEADERS => {
                touched.add(Disagreement::NinthHeaderCut);
                return Walked::TooMany;
            }
            Some(_) => {
                let Some((fixed, behind)) = rest.split_first_chunk::<SHORTEST>() else { return Walked::Truncated };
                let next = IpNumber(fixed[0]);
                if kind == AUTH && fixed[1] == 0 {
                    touched.add(Disagreement::AuthenticationTooShort);
                    headers += 1;
                    (kind, rest) = (next, behind);
                } else if headers + 1 == MOST_HEADERS && KINDS.contains(&next) {
                    touched.add(Disagreement::EighthHeaderCut);
                    return Walked::TooMany;
                } else {
                    return Walked::Truncated;
                }
            }
        }
    }
}
