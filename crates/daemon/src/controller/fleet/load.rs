//! A weight from the load of the host: its CPU pressure.

use std::fs;

/// The least weight from load.
const LEAST: f64 = 0.1;

/// Returns the part of the last ten seconds in which no task waited for a CPU, at least a tenth. 1 if the kernel does
/// not say.
pub(super) fn weight() -> f64 {
    fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| of(&text)).unwrap_or(1.0)
}

/// Reads the first line of `/proc/pressure/cpu`: `some avg10=1.50 avg60=...`, in percent.
fn of(text: &str) -> Option<f64> {
    let percent = text.strip_prefix("some avg10=")?.split(' ').next()?.parse::<f64>().ok()?;
    percent.is_finite().then(|| (1.0 - percent / 100.0).clamp(LEAST, 1.0))
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_host_under_pressure_weighs_less() {
        assert_eq!(of("some avg10=0.00 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00"), Some(1.0));
        assert_eq!(of("some avg10=25.00 avg60=1.00 avg300=0.00 total=5\n"), Some(0.75));
        assert_eq!(of("some avg10=99.50 avg60=1.00 avg300=0.00 total=5\n"), Some(0.1));
        for text in ["", "full avg10=1.00", "some avg10=many", "some avg10=nan avg60"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
