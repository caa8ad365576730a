//! Classes: the numbers by which the kernel side knows the services that rules are about.

/// Number of a service with a rule, in keys and on the kernel side; 0 is any.
pub type Class = u8;

/// [`Class`] of [`Service::Any`](crate::identity::service::Service::Any).
pub const ANY: Class = 0;

/// Classes, and so services with rules at a time, any included.
pub const CLASSES: usize = 1 << Class::BITS;

/// Classes of one packet, one byte each: the narrowest service with a class in the lowest byte, [`ANY`] above the last.
/// Packets of the same narrowest class can have different wider ones, like new connections to several ports. Then the
/// fourth byte differs.
pub type Classes = u32;

/// Largest number of services of one packet: new connection, port, protocol, any.
pub const MOST_CLASSES: u32 = 4;

/// Place of the byte that differs between packets with the same narrowest class.
pub(crate) const TELLING_SHIFT: u32 = Class::BITS * (MOST_CLASSES - 1);

/// Returns the classes as a part of a bucket's key: the narrowest class, and the byte that differs between packets with
/// the same one.
#[inline(always)]
#[must_use]
pub const fn key(classes: Classes) -> u16 {
    (classes >> TELLING_SHIFT << Class::BITS) as u16 | narrowest(classes) as u16
}

/// Adds a narrower class in front of others. [`ANY`] changes nothing.
#[must_use]
pub const fn chain(wider: Classes, narrower: Class) -> Classes {
    if narrower == ANY { wider } else { wider << Class::BITS | narrower as Classes }
}

/// Returns the narrowest class.
#[inline(always)]
#[must_use]
pub const fn narrowest(classes: Classes) -> Class {
    classes as Class
}

/// Returns the classes without the narrowest.
#[inline(always)]
#[must_use]
pub const fn wider(classes: Classes) -> Classes {
    (classes & ((1 << TELLING_SHIFT) - 1)) >> Class::BITS
}

/// Calls `look` with each class, [`ANY`] last. Without services there is only [`ANY`].
///
/// This is no loop: Linux 6.1 takes some layouts of a loop with a call for endless.
///
/// # Errors
///
/// Stops at the first error of `look`, and returns it.
#[inline(always)]
pub fn try_each<E>(
    mut classes: Classes,
    has_services: bool,
    mut look: impl FnMut(Class) -> Result<(), E>,
) -> Result<(), E> {
    let mut next = || {
        let class = narrowest(classes);
        classes = wider(classes);
        look(class).map(|()| class != ANY && has_services)
    };
    const { assert!(MOST_CLASSES == 4) };
    let _ = next()? && next()? && next()? && next()?;
    Ok(())
}

/// Calls `look` with each class, [`ANY`] last. Without services there is only [`ANY`].
#[inline(always)]
pub fn each(classes: Classes, has_services: bool, mut look: impl FnMut(Class)) {
    let Ok(()) = try_each::<core::convert::Infallible>(classes, has_services, |class| {
        look(class);
        Ok(())
    });
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
