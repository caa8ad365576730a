//! Servers of requests that share limits through a real Redis.

mod lies;
mod member;
mod rights;
mod rules;
mod usage;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Redis, Sandbox};
use rustix::process::Signal;

/// The limit of the rule, per second.
const LIMIT: f64 = 1_000.0;
const PORTS: [u16; 3] = [8_081, 8_082, 8_083];

/// A server of requests in a fleet.
struct Server {
    daemon: Daemon,
    _folder: Folder,
}

impl Server {
    fn start(sandbox: &Sandbox, port: u16) -> Self {
        let folder = Folder::new();
        folder.write(&format!(
            "[serve]\nhttp = \"127.0.0.1:{port}\"\n\
             [fleet]\nengine = \"redis://127.0.0.1:{}\"\nperiod = \"100ms\"\n\
             [[check]]\nname = \"all\"\nkey = \"user\"\nlimits = \"1000/s\"\n",
            Redis::PORT
        ));
        let command = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
        let mut daemon = Daemon::by(sandbox, command);
        assert_eq!(daemon.line(), format!("ratelimit: serving http://127.0.0.1:{port} by 1 rule"));
        Self { daemon, _folder: folder }
    }

    fn end(mut self) {
        self.daemon.process.signal(Signal::TERM);
        assert!(self.daemon.process.wait().status.success());
    }
}

/// A caller with one connection.
struct Caller {
    stream: BufReader<TcpStream>,
}

impl Caller {
    fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Returns whether a request of this user is allowed, and whether the server says that it has only its own limit.
    fn ask(&mut self, user: &str) -> (bool, bool) {
        let body = format!("{{\"attributes\": {{\"user\": \"{user}\"}}}}");
        let head = format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        self.stream.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
        let (mut status, mut length, mut is_local) = (String::new(), 0, false);
        self.stream.read_line(&mut status).unwrap();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            is_local |= line == "ratelimit-status: local";
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
        self.stream.read_exact(&mut vec![0; length]).unwrap();
        match status.split(' ').nth(1) {
            Some("200") => (true, is_local),
            Some("429") => (false, is_local),
            _ => unreachable!("{status}"),
        }
    }
}

/// Sends twice the limit to each server, and returns how many requests all of them admit in each second.
fn saturate(sandbox: &Sandbox, seconds: usize) -> Vec<f64> {
    const PAUSE: Duration = Duration::from_micros(500);
    let counts: Vec<_> = (0..=seconds).map(|_| AtomicU64::new(0)).collect();
    sandbox.victim(|| {
        let begin = Instant::now();
        thread::scope(|scope| {
            for port in PORTS {
                let counts = &counts;
                scope.spawn(move || {
                    sandbox.victim(|| {
                        let mut caller = Caller::to(port);
                        let mut next = begin;
                        while begin.elapsed().as_secs() < seconds as u64 {
                            next += PAUSE;
                            thread::sleep(next.saturating_duration_since(Instant::now()));
                            if caller.ask("17").0 {
                                counts[begin.elapsed().as_secs() as usize].fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                });
            }
        });
    });
    counts[..seconds].iter().map(|count| count.load(Ordering::Relaxed) as f64 / LIMIT).collect()
}

fn mean(admitted: &[f64]) -> f64 {
    admitted.iter().sum::<f64>() / admitted.len() as f64
}

#[test]
fn three_servers_share_one_limit_and_each_has_its_own_while_redis_is_silent() {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    let mut servers = PORTS.map(|port| Server::start(&sandbox, port));
    for server in &mut servers {
        let line = server.daemon.line();
        assert!(line.ends_with("answers: limits are shared"), "{line}");
    }
    let shared = saturate(&sandbox, 10);
    println!("shared: {shared:?}");
    assert!((0.97..=1.03).contains(&mean(&shared[5..])), "{shared:?}");
    // A server that is connected and silent.
    redis.process.signal(Signal::STOP);
    let local = saturate(&sandbox, 5);
    println!("without Redis: {local:?}");
    assert!((2.9..=3.1).contains(&mean(&local[3..])), "{local:?}");
    let says_so = sandbox.victim(|| PORTS.map(|port| Caller::to(port).ask("18")));
    assert_eq!(says_so, [(true, true); 3]);
    for server in &mut servers {
        let line = server.daemon.line();
        assert!(line.contains("gives no shares: no answer within 100 ms: local limits apply until it does"), "{line}");
    }
    redis.process.signal(Signal::CONT);
    let again = saturate(&sandbox, 12);
    println!("with Redis again: {again:?}");
    assert!((0.97..=1.03).contains(&mean(&again[8..])), "{again:?}");
    servers.into_iter().for_each(Server::end);
}
