//! Traffic from the peer, sent by the kernel: millions of packets per second, with exact counters.

use std::{
    panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, MapData},
    programs::Xdp,
};

use super::{
    bursts,
    inject::{context, inject},
    interrupt::interrupt,
    walk::Walk,
};
use crate::{Namespace, OBJECT, PEER_LINK, Sandbox, kernel_at_least, stay_on_cpu};

/// Contents and rate of a flood.
#[derive(Debug, Clone)]
pub struct Flood {
    frame: Vec<u8>,
    walk: Walk,
    pace: Option<u64>,
    /// Nanoseconds between two packets, if the sending CPU waits for each.
    interval: u32,
    /// Packets per second, if it sends in bursts.
    bursts: Option<u64>,
    cpu: Option<usize>,
    link: &'static str,
}

/// A running flood, stopped on drop.
pub struct Running {
    counter: Arc<Counter>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Sent packets, as the program counts them.
type Counter = Array<MapData, u64>;
/// The frame's beginning in the program's format.
type Head = [u64; 16];

impl Flood {
    /// Returns a flood of this frame, as fast as one CPU can send.
    #[must_use]
    pub fn of(frame: impl Into<Vec<u8>>) -> Self {
        let (walk, pace, bursts, cpu) = (Walk::default(), None, None, None);
        Self { frame: frame.into(), walk, pace, interval: 0, bursts, cpu, link: PEER_LINK }
    }

    /// Uses `count` sources in turn, starting with the frame's: single addresses for IPv4, and /64 prefixes for IPv6.
    ///
    /// # Panics
    ///
    /// If the frame's headers are invalid.
    #[must_use]
    pub fn sources(mut self, count: u32) -> Self {
        self.walk = Walk::sources(&self.frame, count);
        self
    }

    /// Uses `count` addresses in turn, starting with the frame's.
    ///
    /// # Panics
    ///
    /// If the frame's headers are invalid.
    #[must_use]
    pub fn addresses(mut self, count: u32) -> Self {
        self.walk = Walk::addresses(&self.frame, count);
        self
    }

    /// Uses another IPv4 address for each packet, from the whole address space without the first `used` ones.
    ///
    /// # Panics
    ///
    /// If the frame's headers are invalid.
    #[must_use]
    pub fn endless(mut self, used: u32) -> Self {
        self.walk = Walk::endless(&self.frame, used);
        self
    }

    /// Draws each packet's source at random.
    #[must_use]
    pub fn in_random_order(mut self) -> Self {
        self.walk = self.walk.in_random_order();
        self
    }

    /// Sends this many packets per second in all, evenly and one by one. The maximum is about 50,000.
    #[must_use]
    pub fn pace(mut self, packets_per_second: u64) -> Self {
        self.pace = Some(packets_per_second);
        self
    }

    /// Sends this many packets per second in all, evenly, at any rate. The sending CPU is busy all the time.
    #[must_use]
    pub fn busy_pace(mut self, packets_per_second: u32) -> Self {
        self.interval = 1_000_000_000 / packets_per_second;
        self
    }

    /// Sends this many packets per second in all, in a burst per millisecond, ahead of all other work of its CPU, like the
    /// interrupts of a network card. What does not fit into the time is left out.
    #[must_use]
    pub fn in_bursts(mut self, packets_per_second: u64) -> Self {
        self.bursts = Some(packets_per_second);
        self
    }

    /// Sends only from this one of the CPUs that the process may use, counted from 0.
    #[must_use]
    pub fn on_cpu(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Sends out of this link of the peer.
    #[must_use]
    pub fn through(mut self, link: &'static str) -> Self {
        self.link = link;
        self
    }

    /// Sends exactly `packets` packets, which have arrived when it returns.
    ///
    /// # Panics
    ///
    /// If the kernel refuses to send.
    pub fn send(&self, sandbox: &Sandbox, packets: u64) {
        let sent = self.begin(sandbox, packets).join();
        assert_eq!(sent, packets);
    }

    /// Sends for this long and returns the number of packets.
    ///
    /// # Panics
    ///
    /// If the kernel refuses to send.
    #[must_use]
    pub fn send_for(&self, sandbox: &Sandbox, time: Duration) -> u64 {
        let running = self.start(sandbox);
        thread::sleep(time);
        running.stop()
    }

    /// Sends until stopped.
    ///
    /// # Panics
    ///
    /// If the kernel refuses the program.
    #[must_use]
    pub fn start(&self, sandbox: &Sandbox) -> Running {
        self.begin(sandbox, u64::MAX)
    }

    fn begin(&self, sandbox: &Sandbox, packets: u64) -> Running {
        let mut loader = EbpfLoader::new();
        self.walk.configure(&mut loader);
        loader.override_global("INTERVAL", &self.interval, true);
        let mut ebpf = loader.load(OBJECT).expect("cannot load the kernel side of the tests");
        let mut head: Array<_, Head> = ebpf.map_mut("HEAD").unwrap().try_into().unwrap();
        head.set(0, self.head(), 0).expect("cannot write to a map");
        let counter: Counter = ebpf.take_map("SENT").unwrap().try_into().unwrap();
        let program: &mut Xdp = ebpf.program_mut("send").unwrap().try_into().unwrap();
        program.load().expect("the kernel refuses the program");
        let ready = self.bursts.map(|_| bursts::keep_ready(program));

        let counter = Arc::new(counter);
        let stop = Arc::new(AtomicBool::new(false));
        let sender = Sender {
            flood: self.clone(),
            namespace: sandbox.peer_namespace(),
            ebpf,
            counter: Arc::clone(&counter),
            stop: Arc::clone(&stop),
            _ready: ready,
        };
        let thread = thread::spawn(move || sender.send(packets));
        Running { counter, stop, thread: Some(thread) }
    }

    /// Returns the frame's beginning, which the program restores.
    fn head(&self) -> Head {
        let mut head = [0; _];
        for (word, bytes) in head.iter_mut().zip(self.frame.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap());
        }
        head
    }
}

impl Running {
    /// Returns packets sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        count(&self.counter)
    }

    /// Stops the flood and returns the number of sent packets.
    ///
    /// # Panics
    ///
    /// If the kernel refused to send.
    pub fn stop(self) -> u64 {
        self.interrupt();
        self.join()
    }

    fn interrupt(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            interrupt(thread);
        }
    }

    fn join(mut self) -> u64 {
        if let Some(Err(payload)) = self.thread.take().map(JoinHandle::join) {
            panic::resume_unwind(payload);
        }
        self.sent()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.interrupt();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The sending thread.
struct Sender {
    flood: Flood,
    namespace: Arc<Namespace>,
    ebpf: Ebpf,
    counter: Arc<Counter>,
    stop: Arc<AtomicBool>,
    _ready: Option<Namespace>,
}

impl Sender {
    fn send(self, packets: u64) {
        self.namespace.enter();
        if let Some(cpu) = self.flood.cpu {
            stay_on_cpu(cpu);
        }
        // Linux 7 preempts lazily. Anything that waits for an RCU grace period, like our commands, would wait for the
        // end of the run.
        let most = if kernel_at_least(7, 0) { 100_000 } else { u64::from(u32::MAX) };
        let program: &Xdp = self.ebpf.program("send").unwrap().try_into().unwrap();
        let context = context(self.flood.frame.len() as u32, self.flood.link);
        if let Some(per_second) = self.flood.bursts {
            return bursts::send(program, &self.flood.frame, &context, per_second, &self.stop);
        }
        let begin = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            let due = self.flood.pace.map_or(packets, |pace| packets.min(due(begin.elapsed(), pace)));
            let missing = due - count(&self.counter);
            if due == packets && missing == 0 {
                return;
            }
            match self.flood.pace {
                Some(_) if missing == 0 => thread::sleep(Duration::from_millis(1)),
                // Several programs at a time make the kernel wait before and after, until all CPUs know the program.
                Some(_) => inject(program, &self.flood.frame, &context, 1),
                None => inject(program, &self.flood.frame, &context, missing.min(most) as u32),
            }
        }
    }
}

/// Returns how many packets are due after `elapsed`.
fn due(elapsed: Duration, per_second: u64) -> u64 {
    (elapsed.as_nanos() * u128::from(per_second) / 1_000_000_000) as u64
}

fn count(counter: &Counter) -> u64 {
    counter.get(&0, 0).expect("the counter is gone")
}
