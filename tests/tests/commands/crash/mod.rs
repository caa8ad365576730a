//! Commands that are killed, interrupted, or fail at a system call that changes something. After the next command,
//! whatever is listed acts, whatever acts is listed, the interfaces carry the program, and no other pin is left.

mod cases;
mod committed;
mod debt;
mod faults;

use std::{
    collections::BTreeSet,
    env,
    net::Ipv4Addr,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use ratelimit_tests::{Call, Fault, Flood, Folder, Frame, Ratelimit, Sandbox, Traced, traced_daemon, try_traced};
use serde_json::Value;

use self::{
    cases::{CASES, Case, DAEMON, Drops, INPUT, OTHER},
    faults::{CALLS, FAULTS, changes},
};

/// Cases that every change of the code meets, and faults of each. `cargo xtask crash` tries all.
const SAMPLE: usize = 6;
const EACH: usize = 4;

/// Environment variable for the number that chooses the sample.
const SEED: &str = "CRASH_SEED";

/// Environment variable for a part of the commands that `cargo xtask crash` tries.
const ONLY: &str = "CRASH_COMMAND";

/// Cases that run at a time. Most of their time they wait.
const AT_A_TIME: usize = 4;

/// Calls of a command that recovers. Each run fails at one of them.
const RECOVERY: usize = 60;

/// Packets of one probe.
const PACKETS: u64 = 10;

#[test]
fn after_a_random_fault_what_is_listed_acts_and_nothing_else() {
    let seed = env::var(SEED).map_or_else(|_| random_seed(), |seed| seed.parse().unwrap());
    println!("{SEED}={seed} chooses the same sample again");
    let mut random = u64::from(seed) | 1;
    let mut draw = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let mut cases = CASES.to_vec();
    while cases.len() > SAMPLE {
        cases.swap_remove(draw(cases.len()));
    }
    let places: Vec<[usize; EACH]> = cases.iter().map(|_| [(); EACH].map(|()| draw(1 << 20))).collect();
    run_all(&cases, |case, steps| places[case].map(|place| steps[place % steps.len()]).to_vec());
}

#[test]
#[ignore = "slow: cargo xtask crash"]
fn after_every_fault_what_is_listed_acts_and_nothing_else() {
    let only = env::var(ONLY).unwrap_or_default();
    let cases: Vec<Case> = CASES.iter().filter(|case| case.command.contains(&only)).copied().collect();
    assert!(!cases.is_empty(), "no command contains {only}");
    let [killed, failed, interrupted] = run_all(&cases, |_, steps| steps);
    println!("{} commands: {killed} calls killed, {failed} failed, {interrupted} interrupted", cases.len());
    let fewest = if only.is_empty() { 10 * CASES.len() } else { cases.len() };
    assert!(killed.min(failed).min(interrupted) >= fewest);
}

fn random_seed() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos()
}

/// Runs these cases, several at a time, with the faults that `choose` leaves of each. Returns how many of each kind met a call.
fn run_all(cases: &[Case], choose: impl Fn(usize, Vec<Step>) -> Vec<Step> + Sync) -> [usize; FAULTS.len()] {
    let (next, tried) = (AtomicUsize::new(0), FAULTS.map(|_| AtomicUsize::new(0)));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let number = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(case) = cases.get(number)
                {
                    let faults = Run::of(case).with(|steps| choose(number, steps));
                    println!("{}: {faults:?} faults", case.command);
                    for (all, of_case) in tried.iter().zip(faults) {
                        all.fetch_add(of_case, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    tried.map(AtomicUsize::into_inner)
}

/// The place of a call among those that change something, and the index of a fault.
type Step = (usize, usize);

/// One case in a sandbox of its own.
struct Run<'a> {
    case: &'a Case,
    sandbox: Sandbox,
    /// The file of a daemon.
    folder: Folder,
}

/// What commands list, and what packets meet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    /// Whether the case's rule is listed.
    is_listed: bool,
    /// Interfaces with the program.
    interfaces: Vec<String>,
    /// Names of all pins, without the ids of links.
    pins: BTreeSet<String>,
}

impl<'a> Run<'a> {
    fn of(case: &'a Case) -> Self {
        let folder = Folder::new();
        folder.write(case.input);
        Self { case, sandbox: Sandbox::new(), folder }
    }

    fn ratelimit(&self) -> Ratelimit<'_> {
        Ratelimit::new(&self.sandbox)
    }

    /// Runs the case with each of the faults that `choose` leaves, and returns how many of each kind met a call.
    fn with(&self, choose: impl FnOnce(Vec<Step>) -> Vec<Step>) -> [usize; FAULTS.len()] {
        let (case, ratelimit) = (self.case, self.ratelimit());
        self.sandbox.ip("link add eth1 type veth peer name far1");
        case.setup.iter().for_each(|words| drop(ratelimit.ok(words)));
        // The victim spares its own address.
        let mut sources = (0..).map(|number: u32| Ipv4Addr::from(0x0a09_0100 + number));
        self.reset();
        // What the first run leaves, the second one finds.
        drop(self.traced(None));
        let number = self.calls().len();
        let before = self.state();
        assert!(before.is_listed != case.adds, "{}: {before:?}", case.command);
        self.acts(&mut sources, &before, "before");
        let complete = self.traced(None);
        assert!(complete.output.status.success(), "{}: {:?}", case.command, complete.output);
        let after = self.state();
        assert!(after.is_listed == case.adds, "{}: {after:?}", case.command);
        self.acts(&mut sources, &after, "after");

        let chosen = choose((0..number).flat_map(|place| (0..FAULTS.len()).map(move |kind| (place, kind))).collect());
        let mut tried = FAULTS.map(|_| 0);
        for (place, kind) in &chosen {
            let fault = &FAULTS[*kind];
            let calls = self.calls();
            let Some(Call { name: call, number, .. }) = calls.get(*place) else { continue };
            let name = format!("{} with {fault:?} at {call} {number}", case.command);
            let run = self.traced(Some((call, *number, *fault)));
            // Calls of bpf have no fixed numbers, because commands look at programs of other tests too.
            tried[*kind] += usize::from(run.happened);
            // These commands only read, but they open the instance. The first one fails somewhere, too.
            drop(self.recovering(1 + place % RECOVERY));
            drop(ratelimit.run("deny list"));
            let now = self.state();
            let is_one = |of: &State| now.is_listed == of.is_listed && now.interfaces == of.interfaces;
            assert!(is_one(&before) || is_one(&after), "{name}: {now:?}");
            assert!(now.pins.is_subset(&(&before.pins | &after.pins)), "{name}: {:?}", now.pins);
            self.acts(&mut sources, &now, &name);
            if let Fault::Error(_) = fault {
                let said = String::from_utf8_lossy(&run.output.stderr);
                match run.output.status.code() {
                    Some(0) => assert!(is_one(&after), "{name}: {now:?}"),
                    _ => {
                        assert_eq!(said.lines().count(), 1, "{name}: {said}");
                        let texts = ["the next command completes", "is in force", "detached, but"];
                        let is_said = texts.iter().any(|text| said.contains(text));
                        assert!(is_one(&before) || is_said, "{name}: {said}");
                    }
                }
            }
            // Whatever was left, the command does its work when it is repeated.
            drop(self.traced(None));
            assert_eq!(self.state(), after, "{name}, and repeated");
            self.acts(&mut sources, &after, &format!("{name}, and repeated"));
        }
        // A call can be missing when a command finds its work done.
        assert!(2 * tried.iter().sum::<usize>() >= chosen.len(), "{}: only {tried:?} faults", case.command);
        // A case may end without an instance.
        let _ = ratelimit.run("detach --all");
        assert!(self.sandbox.pins().is_empty(), "{}: {:?}", case.command, self.sandbox.pins());
        tried
    }

    /// Runs the command, with or without a fault.
    fn traced(&self, fault: Option<(&'static str, usize, Fault)>) -> Traced {
        let (case, ratelimit) = (self.case, self.ratelimit());
        if case.command == DAEMON {
            let command = ratelimit.command(&format!("{DAEMON}{}", self.folder.file().display()));
            return traced_daemon(&self.sandbox, &command, &CALLS, fault);
        }
        try_traced(&self.sandbox, &ratelimit.command(case.command), case.input, &CALLS, fault)
    }

    /// Runs a command that opens the instance. Its call of `bpf` with this number fails.
    fn recovering(&self, number: usize) -> Traced {
        let fault = Some(("bpf", number, Fault::Error("ENOMEM")));
        try_traced(&self.sandbox, &self.ratelimit().command("deny list"), "", &CALLS, fault)
    }

    /// Makes the state from which the command begins.
    fn reset(&self) {
        let (ratelimit, other) = (self.ratelimit(), Ratelimit::other(&self.sandbox));
        // What is not there cannot be removed.
        let run = |words: &&str| {
            let words = words.replace(INPUT, &self.folder.file().display().to_string());
            match words.strip_prefix(OTHER) {
                Some(words) => drop(other.run(words)),
                None => drop(ratelimit.run(&words)),
            }
        };
        self.case.reset.iter().for_each(run);
    }

    /// Returns the calls by which the command changes something, and makes the state from which it begins.
    fn calls(&self) -> Vec<Call> {
        self.reset();
        let complete = self.traced(None);
        assert!(complete.output.status.success(), "{}: {:?}", self.case.command, complete.output);
        self.reset();
        let calls = changes(complete.calls);
        assert!(!calls.is_empty(), "{}: no call changes anything", self.case.command);
        calls
    }

    /// Returns what `status` prints for the version that is in force. None if there is no instance.
    fn status(&self) -> Option<Value> {
        let both = [self.ratelimit(), Ratelimit::other(&self.sandbox)];
        let status = both.iter().map(|one| one.run("status --json")).find(|output| output.status == 0)?;
        Some(serde_json::from_str(&status.stdout).unwrap())
    }

    fn state(&self) -> State {
        let list = self.ratelimit().run(&format!("{} --json", self.case.list)).stdout.replace([' ', '\n'], "");
        let status = self.status();
        let listed = status.iter().flat_map(|status| status["interfaces"].as_array().unwrap());
        let listed: BTreeSet<&str> = listed.map(|interface| interface["name"].as_str().unwrap()).collect();
        let has_program = |name: &&str| self.sandbox.ip(&format!("link show {name}")).contains("prog/xdp");
        let attached: Vec<&str> = ["eth0", "eth1"].into_iter().filter(has_program).collect();
        assert_eq!(listed, attached.iter().copied().collect(), "{}", self.case.command);
        let interfaces = attached.into_iter().map(str::to_owned).collect();
        let name = |pin: PathBuf| pin.display().to_string().split('@').next().unwrap().to_owned();
        // The folder that a daemon locks stays if it is killed.
        let is_of_daemon = |pin: &PathBuf| pin.ends_with("daemon");
        let pins = self.sandbox.pins().into_iter().filter(|pin| !is_of_daemon(pin)).map(name).collect();
        State { is_listed: list.contains(self.case.listed), interfaces, pins }
    }

    /// Checks that the case's rule acts on a source exactly if it is listed.
    fn acts(&self, sources: &mut impl Iterator<Item = Ipv4Addr>, state: &State, name: &str) {
        let dropped = || self.status().map_or(0, |status| status["dropped"]["packets"].as_u64().unwrap());
        let before = dropped();
        let source = sources.next().unwrap();
        Flood::of(Frame::udp(source, 9)).send(&self.sandbox, PACKETS);
        let dropped = dropped() - before;
        let is_expected = match self.case.drops {
            Drops::Listed => state.is_listed,
            Drops::Unlisted => !state.is_listed,
            Drops::Always => true,
        };
        assert_eq!(dropped > PACKETS / 2, is_expected, "{name}: {dropped} dropped, {state:?}");
    }
}
