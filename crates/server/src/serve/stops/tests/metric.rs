//! What the metric tells of the daemon without a request.

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::*;

/// The time in which the server must connect.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens as a daemon to which the server must connect in time.
fn listen(socket: &Socket) -> UnixListener {
    let daemon = UnixListener::bind(&socket.0).unwrap();
    set_socket_timeout(&daemon, Timeout::Recv, Some(PATIENCE)).unwrap();
    daemon
}

/// Sends requests until the stops are dropped.
fn serve(sender: Sender) -> JoinHandle<()> {
    thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(sender.run());
    })
}

/// Waits until the metric tells this.
fn wait_for(stops: &Stops, up: u8) {
    let begin = Instant::now();
    loop {
        let mut page = String::new();
        stops.write(&mut page);
        if page.contains(&format!("\nratelimit_check_stops_up {up}\n")) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{page}");
        thread::yield_now();
    }
}

#[test]
fn the_metric_tells_without_a_request_that_the_daemon_is_gone_and_back() {
    let socket = Socket::new();
    let (stops, sender, _) = started(&socket.0);
    let server = serve(sender);
    for _ in 0..2 {
        let daemon = listen(&socket);
        let connection = daemon.accept().unwrap();
        wait_for(&stops, 1);
        drop((daemon, connection));
        wait_for(&stops, 0);
        fs::remove_file(&socket.0).unwrap();
    }
    drop(stops);
    server.join().unwrap();
}

#[test]
fn the_metric_tells_without_a_request_that_a_daemon_lives_which_has_left_one_without_an_answer() {
    let socket = Socket::new();
    let (stops, sender, limiter) = started(&socket.0);
    let server = serve(sender);
    let daemon = listen(&socket);
    let fail = |daemon: &UnixListener, first: UnixStream, address: u32| {
        wait_for(&stops, 1);
        flood(&stops, &limiter, Some(address), 0..=100);
        // The server sends the request a second time, over another connection.
        let mut next = first;
        for _ in 0..2 {
            BufReader::new(&next).read_line(&mut String::new()).unwrap();
            writeln!(next, "garbage").unwrap();
            next = daemon.accept().unwrap().0;
        }
        // It connects again, which says nothing about the daemon.
        wait_for(&stops, 0);
        next
    };
    let next = fail(&daemon, daemon.accept().unwrap().0, 1);
    // It closes an idle connection.
    drop(next);
    let next = fail(&daemon, daemon.accept().unwrap().0, 2);
    // Another one takes its place.
    fs::remove_file(&socket.0).unwrap();
    drop((daemon, next));
    let daemon = listen(&socket);
    let _connection = daemon.accept().unwrap();
    wait_for(&stops, 1);
    drop((daemon, stops));
    server.join().unwrap();
}
