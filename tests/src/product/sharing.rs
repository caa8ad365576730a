//! Servers of requests that share one limit through a real Redis.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{Daemon, Folder, Ratelimit, Redis, Sandbox};

const PORTS: [u16; 3] = [8_081, 8_082, 8_083];
/// The time between two requests to one server: twice the limit.
const PAUSE: Duration = Duration::from_micros(500);

/// Three servers on the loopback of a sandbox.
#[derive(Debug)]
pub struct Sharing<'a> {
    sandbox: &'a Sandbox,
    servers: [(Daemon, Folder); 3],
}

/// Requests to all servers in a second, in limits.
#[derive(Debug, Clone, Copy)]
pub struct Second {
    /// Those that were admitted.
    pub admitted: f64,
    /// Those that each server by itself would admit.
    pub wanted: f64,
}

/// What a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// Whether the request may go on.
    pub is_allowed: bool,
    /// Whether the server says that it has only its own limit.
    pub is_local: bool,
}

impl<'a> Sharing<'a> {
    /// The limit of a user in all, in requests per second.
    pub const LIMIT: f64 = 1_000.0;

    /// Starts the servers. They share the limit when this returns.
    ///
    /// # Panics
    ///
    /// If they do not.
    #[must_use]
    pub fn start(sandbox: &'a Sandbox, redis: &Redis) -> Self {
        let mut servers = PORTS.map(|port| server(sandbox, port, redis.port));
        for (server, _) in &mut servers {
            let line = server.line();
            assert!(line.ends_with("answers: limits are shared"), "{line}");
        }
        Self { sandbox, servers }
    }

    /// Returns the next line of each server.
    #[must_use]
    pub fn lines(&mut self) -> [String; 3] {
        self.servers.each_mut().map(|(server, _)| server.line())
    }

    /// Asks each server for a user once.
    #[must_use]
    pub fn ask(&self, user: &str) -> [Decided; 3] {
        self.sandbox.victim(|| PORTS.map(|port| Caller::to(port).ask(user)))
    }

    /// Sends each server twice the limit, or what a busy machine can send. Returns what happens in each second.
    #[must_use]
    pub fn saturate(&self, seconds: usize) -> Vec<Second> {
        let begin = Instant::now();
        let all = thread::scope(|scope| {
            let send = |port| scope.spawn(move || self.sandbox.victim(|| send(port, begin, seconds)));
            PORTS.map(send).map(|thread| thread.join().unwrap())
        });
        let second = |number: usize| {
            let of_all = |counted: fn(&Counts) -> f64| all.iter().map(|counts| counted(&counts[number])).sum::<f64>();
            Second {
                admitted: of_all(|counts| counts.admitted as f64) / Self::LIMIT,
                wanted: of_all(|counts| (counts.asked as f64).min(Self::LIMIT)) / Self::LIMIT,
            }
        };
        (0..seconds).map(second).collect()
    }

    /// Ends the servers.
    ///
    /// # Panics
    ///
    /// If one fails.
    pub fn end(self) {
        for (mut server, _folder) in self.servers {
            server.process.signal(Signal::TERM);
            assert!(server.process.wait().status.success());
        }
    }
}

/// Starts a server.
fn server(sandbox: &Sandbox, port: u16, engine: u16) -> (Daemon, Folder) {
    let folder = Folder::new();
    folder.write(&format!(
        "[serve]\nhttp = \"127.0.0.1:{port}\"\n\
         [fleet]\nengine = \"redis://127.0.0.1:{engine}\"\nperiod = \"100ms\"\n\
         [[check]]\nname = \"all\"\nkey = \"user\"\nlimits = \"1000/s\"\n"
    ));
    let command = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
    let mut daemon = Daemon::by(sandbox, command);
    assert_eq!(daemon.line(), format!("ratelimit: serving http://127.0.0.1:{port} by 1 rule"));
    (daemon, folder)
}

/// Sends requests to a server for so many seconds after `begin`, and counts them in each of these.
fn send(port: u16, begin: Instant, seconds: usize) -> Vec<Counts> {
    let (mut caller, mut counts) = (Caller::to(port), vec![Counts::default(); seconds]);
    let mut next = begin;
    let second = || begin.elapsed().as_secs() as usize;
    while second() < seconds {
        next += PAUSE;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let is_allowed = caller.ask("17").is_allowed;
        if let Some(counts) = counts.get_mut(second()) {
            counts.asked += 1;
            counts.admitted += u64::from(is_allowed);
        }
    }
    counts
}

/// Requests to one server in a second.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    asked: u64,
    admitted: u64,
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

    fn ask(&mut self, user: &str) -> Decided {
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
        let is_allowed = match status.split(' ').nth(1) {
            Some("200") => true,
            Some("429") => false,
            _ => panic!("{status}"),
        };
        Decided { is_allowed, is_local }
    }
}
