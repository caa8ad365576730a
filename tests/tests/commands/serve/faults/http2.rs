//! Oddities of HTTP/2 on the socket for gRPC, frame by frame.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::{Duration, Instant},
};

use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitRequest, rate_limit_service_client::RateLimitServiceClient,
};
use ratelimit_tests::{Daemon, Folder, PATIENCE, Ratelimit, Sandbox};
use rustix::process::Signal;
use tonic::{Code, transport::Endpoint};

use super::{
    super::{RULES, text},
    Taken, recover,
};

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const END_STREAM: u8 = 1;
/// `POST http://x/`, as HPACK.
pub(super) const POST: [u8; 6] = [0x83, 0x86, 0x84, 0x41, 0x01, b'x'];

/// A server with gRPC only.
pub(super) struct Grpc {
    pub(super) daemon: Daemon,
    pub(super) socket: PathBuf,
    pub(super) before: Taken,
    _folder: Folder,
}

impl Grpc {
    pub(super) fn start(sandbox: &Sandbox) -> Self {
        let folder = Folder::new();
        let socket = folder.file().with_file_name("grpc.sock");
        folder.write(&text(&socket, RULES).replace("http =", "grpc ="));
        let command = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
        let mut daemon = Daemon::by(sandbox, command);
        assert!(daemon.line().starts_with("ratelimit: serving gRPC on unix:"));
        let before = Taken::by(&daemon);
        Self { daemon, socket, before, _folder: folder }
    }

    /// Opens a connection that has begun as HTTP/2.
    pub(super) fn connect(&self) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.write_all(PREFACE).unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        // Neither side waits for the other for ever.
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Fails unless another caller gets an answer that only the service can give.
    pub(super) fn answers(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async {
            let endpoint = Endpoint::from_shared(format!("unix:{}", self.socket.display())).unwrap();
            let channel = endpoint.timeout(PATIENCE).connect().await.unwrap();
            RateLimitServiceClient::new(channel).should_rate_limit(RateLimitRequest::default()).await
        });
        assert_eq!(answer.unwrap_err().code(), Code::InvalidArgument);
    }

    pub(super) fn end(mut self) {
        self.answers();
        recover(&self.daemon, self.before);
        self.before.check_growth(Taken::by(&self.daemon), 32);
        self.daemon.process.signal(Signal::TERM);
        assert!(self.daemon.process.wait().status.success());
    }
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A frame that the server has sent: its kind, its stream, and the error code in it, if it has one.
fn next(stream: &mut UnixStream) -> Option<(u8, u32, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).ok()?;
    let word = |at: usize| payload.get(at..at + 4).map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
    let code = if head[3] == GOAWAY { word(4) } else { word(0) };
    Some((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), code))
}

/// Returns the error of the last frame GOAWAY before the server ends the connection.
fn end_of(stream: &mut UnixStream) -> Option<u32> {
    let begin = Instant::now();
    let mut error = None;
    while let Some((kind, _, code)) = next(stream) {
        assert!(begin.elapsed() < PATIENCE);
        if kind == GOAWAY {
            error = Some(code);
        }
    }
    error
}

#[test]
fn a_connection_that_does_not_begin_as_http_2_ends_at_once() {
    let sandbox = Sandbox::new();
    let server = Grpc::start(&sandbox);
    for garbage in
        [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n........"[..], &[0; 64], &[0xff; 64], &[&PREFACE[..20], &[0; 64]].concat()]
    {
        let begin = Instant::now();
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        stream.write_all(garbage).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = end_of(&mut stream);
        // A connection on which nothing arrives ends after ten seconds.
        assert!(begin.elapsed() < Duration::from_secs(9), "{garbage:?}");
    }
    server.end();
}

#[test]
fn ten_thousand_streams_of_one_connection_are_refused_above_256() {
    let sandbox = Sandbox::new();
    let server = Grpc::start(&sandbox);
    let mut stream = server.connect();
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut refused = 0;
        while let Some((kind, _, code)) = next(&mut reader) {
            match kind {
                // REFUSED_STREAM.
                RST_STREAM if code == 7 => refused += 1,
                PING | GOAWAY => return (refused, Some(kind)),
                _ => {}
            }
        }
        (refused, None)
    });
    for number in 0..10_000 {
        if stream.write_all(&frame(HEADERS, END_HEADERS, 2 * number + 1, &POST)).is_err() {
            break;
        }
    }
    // The answer to this comes after those to the streams.
    let _ = stream.write_all(&frame(PING, 0, 0, &[0; 8]));
    let (refused, last) = reading.join().unwrap();
    println!("{refused} streams refused, then {last:?}, {:?}", Taken::by(&server.daemon));
    assert!(refused >= 500, "{refused}");
    server.before.check_growth(Taken::by(&server.daemon), 32);
    server.answers();
    drop(stream);
    server.end();
}

#[test]
fn a_caller_that_resets_its_streams_at_once_is_told_to_calm_down() {
    let sandbox = Sandbox::new();
    let server = Grpc::start(&sandbox);
    let mut stream = server.connect();
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || end_of(&mut reader));
    let sent = (0..100_000).take_while(|number| {
        let stream_number = 2 * number + 1;
        let mut both = frame(HEADERS, END_HEADERS, stream_number, &POST);
        // CANCEL.
        both.extend(frame(RST_STREAM, 0, stream_number, &8_u32.to_be_bytes()));
        stream.write_all(&both).is_ok()
    });
    let sent = sent.count();
    println!("{sent} streams before the end, {:?}", Taken::by(&server.daemon));
    assert!(sent < 100_000);
    // ENHANCE_YOUR_CALM.
    assert!([Some(11), None].contains(&reading.join().unwrap()));
    server.end();
}

#[test]
fn headers_without_end_take_no_memory() {
    let sandbox = Sandbox::new();
    let server = Grpc::start(&sandbox);
    let mut stream = server.connect();
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || end_of(&mut reader));
    // A header of 16,000 bytes in each frame: its name, and its value.
    let mut part = vec![0x00, 0x01, b'y', 0x7f];
    part.extend([0x81, 0x7c]);
    part.extend([b'z'; 127 + 1 + (0x7c << 7)]);
    let mut sent = usize::from(stream.write_all(&frame(HEADERS, 0, 1, &POST)).is_ok());
    while sent < 10_000 && stream.write_all(&frame(CONTINUATION, 0, 1, &part)).is_ok() {
        sent += 1;
    }
    println!("{sent} frames of 16 kB before the end, {:?}", Taken::by(&server.daemon));
    assert!(sent < 10_000);
    let _ = reading.join().unwrap();
    server.end();
}
