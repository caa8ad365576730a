//! Plots, drawn by the server.

use maud::{Markup, html};

use crate::serve::console::history::{SAMPLES, STEP, Sample};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// Returns a number in few digits.
pub(in crate::serve::console) fn short(number: f64) -> String {
    match number {
        ..0.05 => "0".to_owned(),
        ..9.95 => format!("{number:.1}"),
        ..9_999.5 => format!("{number:.0}"),
        ..9_999_500.0 => format!("{:.0}k", number / 1e3),
        _ => format!("{:.0}M", number / 1e6),
    }
}

/// Returns the rate of the last step.
pub(in crate::serve::console) fn now(samples: &[Sample]) -> [f64; 2] {
    samples.last().copied().unwrap_or_default().map(per_second)
}

fn per_second(count: u32) -> f64 {
    f64::from(count) / STEP.as_secs_f64()
}

/// Draws the rates of what passed and of what was refused.
pub(in crate::serve::console) fn plot(samples: &[Sample], what: &str, [passed, refused]: [&str; 2]) -> Markup {
    let most = samples.iter().flatten().copied().map(per_second).fold(0.0, f64::max);
    let [of_passed, of_refused] = now(samples).map(short);
    let line = |kind: usize| {
        // Before the first sample, there was nothing.
        let nothing = SAMPLES.saturating_sub(samples.len());
        let all = std::iter::repeat_n(&[0, 0], nothing).chain(samples);
        let point = |(place, sample): (usize, &Sample)| {
            let x = place as f64 * WIDTH / (SAMPLES - 1) as f64;
            let count = sample.get(kind).copied().unwrap_or_default();
            let y = HEIGHT - 2.0 - per_second(count) / most.max(1.0) * (HEIGHT - 8.0);
            format!("{x:.0},{y:.1}")
        };
        all.enumerate().map(point).collect::<Vec<_>>().join(" ")
    };
    let label = format!(
        "{what} per second in the last ten minutes: {of_passed} {passed} and {of_refused} {refused} now, at most {}",
        short(most)
    );
    html! {
        svg class="plot" role="img" aria-label=(label) viewBox="0 0 600 120" preserveAspectRatio="none" {
            line x1="0" x2="600" y1="118" y2="118" {}
            polyline class="allowed" points=(line(0)) {}
            polyline class="refused" points=(line(1)) {}
        }
        p class="legend" {
            (what) " per second in ten minutes, now: "
            span class="good" { (of_passed) " " (passed) } ", "
            span class="bad" { (of_refused) " " (refused) } ". At most " (short(most)) "."
        }
    }
}
