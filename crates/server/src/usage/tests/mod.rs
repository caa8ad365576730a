//! Usage in memory and in real files.

mod broken;
mod clients;
mod file;

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use ratelimit_limiter::{Algorithm, Limit, Limiter, Rate, Rule};

use super::{recorder::MOST, *};

const HOUR: u64 = 3_600;
/// The start of some hour and day.
const NOON: u64 = 20_000 * 24 * HOUR;

/// A folder with a file, a limiter whose one rule counts by user, and its recorder.
struct Stage {
    folder: PathBuf,
    limiter: Limiter,
    recorder: Arc<Recorder>,
}

impl Stage {
    /// Creates a limiter that admits requests up to this cost per day.
    fn new(amount: u64) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ratelimit-usage-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let rate = Rate { amount, period: 24 * HOUR * 1_000_000_000 };
        let limit = Limit::new(rate, None, Algorithm::FixedWindow).unwrap();
        let rule = Rule::new("create", [limit]).unwrap().by(["user"]);
        Self { folder, limiter: Limiter::new([rule], [1, 2]), recorder: Arc::default() }
    }

    fn settings(&self) -> UsageFile {
        UsageFile { path: self.folder.join("usage.db"), days: 30, rows: 1_000_000 }
    }

    fn writer(&self) -> Writer {
        Writer::new(Arc::clone(&self.recorder), self.settings())
    }

    /// Asks about a request of the user, at seconds since the epoch.
    fn ask(&self, user: &str, cost: u32, now: u64) -> bool {
        let record = &mut self.recorder.at(now);
        self.limiter.check_and_record(&[("user", user)], cost, now * 1_000_000_000, record).is_allowed
    }

    /// Returns what the file has about the user in this many rows: starts, and admitted, cost and refused.
    fn of(&self, user: &str, step: Step) -> Vec<(u64, [u64; 3])> {
        let path = self.settings().path;
        let found = Reader::open(&path).unwrap().of(&[pair(&format!("user={user}"))], None, 0, step).unwrap();
        found.into_iter().map(|found| (found.start.unwrap(), numbers(found.totals))).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn pair(text: &str) -> Pair {
    text.parse().unwrap()
}

fn numbers(totals: Totals) -> [u64; 3] {
    [totals.admitted, totals.cost, totals.refused]
}
