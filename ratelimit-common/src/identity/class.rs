//! Classes: the numbers by which the kernel side knows the services that rules are about.

/// The number by which keys and the kernel side know a service that some rule is about; 0 is any.
pub type Class = u8;

/// [`Class`] of [`Service::Any`](crate::identity::service::Service::Any).
pub const ANY: Class = 0;

/// Classes, and so services with rules at a time, any included.
pub const CLASSES: usize = 1 << Class::BITS;

/// The classes of one packet, one byte each: the narrowest service that has a class lowest, [`ANY`] above the last. Where packets of the
/// same narrowest class have different wider ones, as new connections to several ports have, the fourth byte tells them apart.
pub type Classes = u32;

/// Services that one packet can be in at most: new connection, port, protocol, any.
pub const MOST_CLASSES: u32 = 4;

/// Place of the byte that tells classes apart which have the narrowest in common.
pub(crate) const TELLING_SHIFT: u32 = Class::BITS * (MOST_CLASSES - 1);

/// The classes as a part of a bucket's key: the narrowest, and what tells them apart from others with the same.
#[inline(always)]
#[must_use]
pub const fn key(classes: Classes) -> u16 {
    (classes >> TELLING_SHIFT << Class::BITS) as u16 | narrowest(classes) as u16
}

/// Puts a narrower class in front of others; one that is [`ANY`] changes nothing.
#[must_use]
pub const fn chain(wider: Classes, narrower: Class) -> Classes {
    if narrower == ANY { wider } else { wider << Class::BITS | narrower as Classes }
}

/// The narrowest class.
#[inline(always)]
#[must_use]
pub const fn narrowest(classes: Classes) -> Class {
    classes as Class
}

/// The classes without the narrowest.
#[inline(always)]
#[must_use]
pub const fn wider(classes: Classes) -> Classes {
    (classes & ((1 << TELLING_SHIFT) - 1)) >> Class::BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_come_out_narrowest_first() {
        let packed = [3, 2, 0, 1].into_iter().fold(0, chain);
        assert_eq!([packed, wider(packed), wider(wider(packed))].map(narrowest), [1, 2, 3]);
        assert_eq!(wider(wider(wider(packed))), 0);
    }
}
