//! Arrivals at a socket of the victim, by source.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ratelimit_tests::Sandbox;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

/// The port that the flood goes to.
pub(crate) const PORT: u16 = 9;

/// Memory for packets that wait. Each takes a page.
const MEMORY: usize = 1 << 24;

/// Runs `work` while a socket receives. Returns its result, and the number of packets of each source.
pub(crate) fn receiving<T>(sandbox: &Sandbox, work: impl FnOnce() -> T) -> (T, HashMap<IpAddr, u64>) {
    let socket = sandbox.victim(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))).expect("cannot bind");
    set_socket_recv_buffer_size_force(&socket, MEMORY).expect("cannot set the memory of a socket");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("cannot set a time limit");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut arrived = HashMap::new();
            loop {
                match socket.recv_from(&mut [0; 64]) {
                    Ok((_, from)) => *arrived.entry(from.ip()).or_default() += 1,
                    // The socket is empty, so every arrival is counted.
                    Err(_) if is_done.load(Ordering::Relaxed) => return arrived,
                    Err(_) => {}
                }
            }
        });
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        (result, receiver.join().expect("the receiver failed"))
    })
}
