//! What hosts receive from one source: the kernel's time of each packet.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, UdpSocket},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::net::sockopt;

use crate::{Sandbox, StampedSocket};

/// Packets of one source that a host receives at a port, until dropped.
#[derive(Debug)]
pub struct Arrivals {
    times: Arc<Mutex<Vec<Duration>>>,
    done: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Arrivals {
    /// Counts from now on.
    ///
    /// # Panics
    ///
    /// If the port is in use.
    #[must_use]
    pub fn begin(host: &Sandbox, source: impl Into<IpAddr>, port: u16) -> Self {
        let source = source.into();
        let socket = host.victim(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port))).expect("the port is in use");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("no timeout");
        // The buffer holds a second's packets while other programs have the CPU.
        sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).expect("no buffer");
        let socket = StampedSocket::new(socket);
        let (times, done) = (Arc::<Mutex<Vec<Duration>>>::default(), Arc::<AtomicBool>::default());
        let (all, is_done) = (Arc::clone(&times), Arc::clone(&done));
        let receive = move || {
            loop {
                match socket.receive() {
                    Ok(packet) if packet.from == source => {
                        all.lock().unwrap_or_else(PoisonError::into_inner).push(packet.at);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let is_empty = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
                        assert!(is_empty, "cannot receive: {error}");
                        if is_done.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                }
            }
        };
        Self { times, done, thread: Some(thread::spawn(receive)) }
    }

    /// Returns how many packets arrived from one moment to another, in time since 1970. Every arrival before the last
    /// tenth of a second has been counted.
    ///
    /// # Panics
    ///
    /// If the receiving thread has panicked.
    #[must_use]
    pub fn between(&self, begin: Duration, end: Duration) -> usize {
        assert!(self.thread.as_ref().is_some_and(|thread| !thread.is_finished()), "the receiver has ended");
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.iter().filter(|at| (begin..end).contains(*at)).count()
    }

    /// Returns when the first packet arrived, in time since 1970. None before it has been counted.
    #[must_use]
    pub fn first(&self) -> Option<Duration> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).first().copied()
    }

    /// Returns the time since 1970.
    ///
    /// # Panics
    ///
    /// If the clock is before 1970.
    #[must_use]
    pub fn now() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970")
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}
