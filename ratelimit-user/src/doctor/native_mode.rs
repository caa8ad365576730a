//! Checks whether the program runs in native mode, and how to attach it again so that it does.

use ratelimit_dataplane::{
    program::values::per_second,
    sys::{
        drivers::{self, Refusal},
        interface::Attached,
        xdp_features::XdpFeatures,
    },
};

use super::{
    facts::Facts,
    finding::{Check, Finding},
};

/// Returns in words how to attach an interface again in another mode. None if it has nothing that a new attach would
/// lose. `capacity` is in packets per second, 0 for none.
pub(super) fn by_hand(name: &str, is_of_file: bool, is_shadow: bool, capacity: u64) -> Option<String> {
    if is_of_file {
        return Some(format!(
            "The daemon's file owns this interface. Take `mode = \"generic\"` out of `[interface.{name}]`, if it is there. Then run `ratelimit detach {name}` and `ratelimit reload`. If the driver refuses, write `mode = \"generic\"` there, and reload again."
        ));
    }
    let shadow = if is_shadow { " --shadow" } else { "" };
    let capacity = if capacity == 0 { String::new() } else { format!(" --capacity {}", per_second(capacity)) };
    let options = format!("{shadow}{capacity}");
    (!options.is_empty()).then(|| {
        format!(
            "A new attach needs the options that the interface has now. Run `ratelimit detach {name}`, then `ratelimit attach {name}{options}`. If the driver refuses, repeat the second one with --mode generic."
        )
    })
}

/// Returns the finding about native mode.
pub(super) fn examine(facts: &Facts<'_>) -> Finding {
    let Facts { name, driver, can, mode, .. } = facts;
    let slow = "In generic mode, the kernel creates a socket buffer for each packet before the program sees it. So a flood costs far more.";
    let known = drivers::of(driver);
    let resets = if known.is_some_and(|driver| driver.resets) {
        "; the first attach interrupts the link for a moment"
    } else {
        ""
    };
    match (mode, &facts.refusal) {
        (Some(Attached::Generic), Some(Refusal { why, fix })) => {
            let finding = Finding::note(Check::NativeXdp, &format!("attached in generic mode: {why}"), slow);
            return match fix {
                Some(fix) => again(facts, finding, Some(fix)),
                None => finding,
            };
        }
        (None, Some(Refusal { why, fix })) => {
            let generic = format!("ratelimit attach {name} --mode generic");
            let slow = format!("Until that ends, `ratelimit attach` needs --mode generic. {slow}");
            return Finding::warning(Check::NativeXdp, why, &slow).fixed_by(fix.clone().unwrap_or(generic));
        }
        _ => {}
    }
    match (mode, can) {
        (Some(Attached::Native | Attached::Offloaded), _) => {
            Finding::ok(Check::NativeXdp, &format!("attached, native (driver {driver})"))
        }
        (Some(Attached::Generic), Some(XdpFeatures { native: true, .. })) if known.is_none() => {
            let what = format!("attached in generic mode, although its driver ({driver}) announces native XDP");
            let why = format!("{slow} The driver may refuse native XDP for reasons of its own.");
            again(facts, Finding::note(Check::NativeXdp, &what, &why), None)
        }
        (Some(Attached::Generic), None) if known.is_some_and(|driver| !driver.has_native) => {
            let what = format!("attached in generic mode: its driver ({driver}) has no native XDP");
            Finding::note(Check::NativeXdp, &what, slow)
        }
        (Some(Attached::Generic), Some(XdpFeatures { native: true, .. })) => {
            let what = format!("attached in generic mode, although its driver ({driver}) has native XDP");
            again(facts, Finding::warning(Check::NativeXdp, &what, slow), None)
        }
        (Some(Attached::Generic), Some(XdpFeatures { native: false, .. })) => {
            let what = format!("attached in generic mode: its driver ({driver}) has no native XDP");
            Finding::note(Check::NativeXdp, &what, slow)
        }
        (Some(Attached::Generic), None) => {
            let what = format!(
                "attached in generic mode; before Linux 6.3, the kernel does not tell whether the driver ({driver}) has native XDP"
            );
            let make = if known.is_some() { Finding::warning } else { Finding::note };
            again(facts, make(Check::NativeXdp, &what, slow), None)
        }
        (None, Some(XdpFeatures { native: true, .. })) => {
            Finding::ok(Check::NativeXdp, &format!("its driver ({driver}) has native XDP{resets}"))
        }
        (None, Some(XdpFeatures { native: false, .. })) => {
            let what = format!("its driver ({driver}) has no native XDP");
            Finding::warning(Check::NativeXdp, &what, &format!("`ratelimit attach` needs --mode generic. {slow}"))
                .fixed_by(facts.attach())
        }
        (None, None) => {
            let what =
                format!("before Linux 6.3, the kernel does not tell whether the driver ({driver}) has native XDP");
            Finding::note(Check::NativeXdp, &what, "`ratelimit attach` tries it, and fails if the driver has none.")
        }
    }
}

/// Adds how to attach again in native mode. The kernel cannot change the mode in place. If the driver refuses, the
/// interface must not stay without a program. `first` is a command without which the driver refuses.
fn again(facts: &Facts<'_>, finding: Finding, first: Option<&str>) -> Finding {
    let Facts { name, .. } = facts;
    let Some(by_hand) = &facts.by_hand else {
        let first = first.map(|first| format!("{first} && ")).unwrap_or_default();
        let attach = format!("ratelimit attach {name}");
        return finding
            .fixed_by(format!("{first}ratelimit detach {name} && {{ {attach} || {attach} --mode generic; }}"));
    };
    let first = first.map(|first| format!(" First run `{first}`.")).unwrap_or_default();
    Finding { why: finding.why.map(|why| format!("{why}{first} {by_hand}")), ..finding }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::tests::{ALL, brief, facts},
            finding::Severity,
        },
        *,
    };

    #[test]
    fn nothing_is_claimed_about_a_driver_that_the_kernel_does_not_describe() {
        let unknown = |mode| brief(Some(examine(&facts("ixgbe", None, mode)))).unwrap();
        assert_eq!(unknown(None), (Severity::Note, None));
        assert_eq!(unknown(Some(Attached::Native)).0, Severity::Ok);
        let again =
            "ratelimit detach eth0 && { ratelimit attach eth0 || ratelimit attach eth0 --mode generic; }".to_owned();
        assert_eq!(unknown(Some(Attached::Generic)), (Severity::Warning, Some(again)));
    }

    #[test]
    fn a_generic_program_is_a_warning_only_if_native_mode_can_be_had() {
        let refusal = |fix: Option<&str>| Some(Refusal { why: "no".to_owned(), fix: fix.map(str::to_owned) });
        let of = |driver, can, refusal| {
            let facts = Facts { refusal, ..facts(driver, can, Some(Attached::Generic)) };
            brief(Some(examine(&facts))).unwrap()
        };
        let again = "ratelimit detach eth0 && { ratelimit attach eth0 || ratelimit attach eth0 --mode generic; }";
        assert_eq!(of("vmxnet3", Some(ALL), None), (Severity::Warning, Some(again.to_owned())));
        let first = Some(format!("ip link set eth0 mtu 3494 && {again}"));
        assert_eq!(of("vmxnet3", Some(ALL), refusal(Some("ip link set eth0 mtu 3494"))), (Severity::Note, first));
        assert_eq!(of("ena", Some(ALL), refusal(None)), (Severity::Note, None));
        assert_eq!(of("unknown", Some(ALL), None), (Severity::Note, Some(again.to_owned())));
        assert_eq!(of("r8169", None, None), (Severity::Note, None));
        let before = Facts { refusal: refusal(None), ..facts("ena", Some(ALL), None) };
        let otherwise = Some("ratelimit attach eth0 --mode generic".to_owned());
        assert_eq!(brief(Some(examine(&before))).unwrap(), (Severity::Warning, otherwise));
    }

    #[test]
    fn no_command_is_printed_that_would_lose_what_an_interface_has() {
        assert_eq!(by_hand("eth0", false, false, 0), None);
        let of = |is_of_file, is_shadow, capacity| {
            let by_hand = by_hand("eth0", is_of_file, is_shadow, capacity);
            let facts = Facts { by_hand, ..facts("vmxnet3", Some(ALL), Some(Attached::Generic)) };
            let refusal = Refusal { why: "no".to_owned(), fix: Some("ip link set eth0 mtu 3494".to_owned()) };
            let first = examine(&Facts {
                refusal: Some(refusal),
                by_hand: facts.by_hand.clone(),
                ..self::facts("vmxnet3", Some(ALL), Some(Attached::Generic))
            });
            let found = examine(&facts);
            assert!(found.fix.is_none() && first.fix.is_none());
            assert!(first.why.unwrap().contains(" First run `ip link set eth0 mtu 3494`. "));
            found.why.unwrap()
        };
        assert!(of(false, true, 0).contains("`ratelimit attach eth0 --shadow`."));
        assert!(of(false, false, 1_000).contains("`ratelimit attach eth0 --capacity 1000/s`."));
        assert!(of(false, true, 1_000).contains("`ratelimit attach eth0 --shadow --capacity 1000/s`."));
        let of_file = of(true, true, 1_000);
        assert!(of_file.contains("`[interface.eth0]`") && of_file.contains("`ratelimit reload`"), "{of_file}");
        assert!(!of_file.contains("ratelimit attach"), "{of_file}");
    }
}
