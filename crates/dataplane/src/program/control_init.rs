//! The initial control entry of an instance: its seed, its clock, its budgets.

use aya::{Ebpf, TestRun as _, TestRunOptions, programs::Xdp};
use ratelimit_common::{
    cells::learned_rate::{self, BATCH_TIME, BURST_TIME},
    limits::limit::SECOND,
    maps::control::{self, ABI_VERSION, Budget, Control},
    meters::gcra,
};
use rustix::{
    rand::GetRandomFlags,
    time::{ClockId, clock_getres},
};

use crate::{
    Error,
    error::Tried as _,
    program::{
        loader,
        settings::{LEARNED, Settings},
    },
    sys::host,
};

/// Ticks of the coarse clock that are measured to find its zero.
const WATCHED: u64 = 3;

/// Nanoseconds' worth of SYN cookies that may be sent at once. Any source may take the first half.
const PROOFS_BURST: u64 = SECOND / 5;

/// Nanoseconds' worth of spared packets that one source may send at once.
const OWN_BURST: u64 = SECOND / 10;

/// Nanoseconds' worth of answers that may be sent at once. At least one may.
const REPLIES_BURST: u64 = SECOND / 10;

/// Returns the control entry for these settings.
pub fn control(object: &mut Ebpf, settings: &Settings) -> Result<Control, Error> {
    let mut control = Control { abi: ABI_VERSION, ipv6_prefix: settings.ipv6_prefix, ..Control::default() };
    control.seed = match settings.fixed_seed {
        Some(seed) => seed,
        None => random_seed()?,
    };
    (control.tick, control.tick_zero) =
        if settings.injected_clock { (settings.injected_tick, 0) } else { ticks(object)? };
    // The beginning of an injected clock. Levels that are cleared before a test sets it would otherwise owe until the
    // machine's own time.
    control.clock = u64::from(settings.injected_clock);
    control.created = host::now();
    control.suspended = host::suspended();
    control.wall = if settings.injected_clock { 0 } else { host::wall().wrapping_sub(control.created) };
    control.most_cost = 1;
    apply(settings, loader::build(), &mut control);
    Ok(control)
}

fn random_seed() -> Result<[u64; 4], Error> {
    let mut bytes = [0u8; 32];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty()).tried("cannot draw a random seed")?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut seed = [0; 4];
    for (word, bytes) in seed.iter_mut().zip(words) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Ok(seed)
}

/// Writes what changes with the program that is in force: its build and its settings.
pub fn apply(settings: &Settings, build: u32, control: &mut Control) {
    control.build = build;
    control.features = settings.features();
    control.sliding_logs = settings.sliding_logs;
    control.admission = budget(settings.admissions, SECOND, 1);
    let unknown = if settings.unknown == LEARNED { learned_rate::FIRST / 60 } else { settings.unknown };
    let batch = (unknown / (SECOND / BATCH_TIME)).max(1);
    control.unknown = budget(unknown, BURST_TIME, batch);
    control.unknown_batch = batch;
    control.proofs = budget(settings.proofs, PROOFS_BURST, 1);
    control.own = budget(settings.own, OWN_BURST, 1);
    control.replies = budget(settings.replies, REPLIES_BURST, 1);
}

/// Returns a budget of so many per second. CPUs take `batch` at a time, and `burst` nanoseconds' worth may be used at
/// once.
fn budget(per_second: u64, burst: u64, batch: u64) -> Budget {
    let Some(cost) = gcra::units(SECOND * batch).checked_div(per_second) else { return Budget::default() };
    Budget { cost, burst: gcra::units(burst).max(cost), per_second }
}

/// Returns the nanoseconds between two ticks of the coarse clock, and the monotonic time at tick 0.
fn ticks(object: &mut Ebpf) -> Result<(u64, u64), Error> {
    let resolution = clock_getres(ClockId::MonotonicCoarse);
    let tick = resolution.tv_nsec.cast_unsigned() + resolution.tv_sec.cast_unsigned() * SECOND;
    let missing =
        Error::Bpf { what: "broken build", detail: format!("the object has no program {}", control::PROGRAM_TICKS) };
    let program: &mut Xdp =
        object.program_mut(control::PROGRAM_TICKS).ok_or(missing)?.try_into().tried("broken build")?;
    program.load().tried("the kernel refused to show its clocks")?;
    let mut zero = u64::MAX;
    let end = host::now() + WATCHED * tick;
    loop {
        let (ticks, now) = read(program)?;
        zero = zero.min(now.wrapping_sub(ticks.wrapping_mul(tick)));
        if now > end {
            program.unload().tried("cannot unload a program")?;
            return Ok((tick, zero));
        }
    }
}

/// Reads both clocks: ticks and nanoseconds.
fn read(program: &Xdp) -> Result<(u64, u64), Error> {
    let (mut sent, mut shown) = ([0u8; 64], [0u8; 64]);
    sent[12] = 1;
    let mut options = TestRunOptions::new();
    options.data_in = Some(&sent);
    options.data_out = Some(&mut shown);
    program.test_run(options).tried("cannot read the kernel's clocks")?;
    let ([ticks, now, ..], _) = shown.as_chunks::<8>() else {
        return Err(Error::Bpf { what: "cannot read the kernel's clocks", detail: "nothing was written".to_owned() });
    };
    Ok((u64::from_ne_bytes(*ticks), u64::from_ne_bytes(*now)))
}
