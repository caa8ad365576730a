//! Callers of HTTP/2 that send calls with errors, and never read what the server says about them.

use std::{
    convert::Infallible,
    io::{ErrorKind, Write},
    net::{IpAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::channel::Channel;
use hyper::{Request, body::Bytes, client::conn::http2::handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ratelimit_tests::{Authority, Daemon, Folder, Ratelimit, Sandbox, VICTIM_IPV4, scaled};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};

use super::{
    super::token,
    Taken,
    http2::{END_HEADERS, END_STREAM, Grpc, HEADERS, POST, PREFACE, SETTINGS, frame},
    recover,
};

/// `:method: GET`, twice.
const MALFORMED: &[u8] = &[0x82, 0x82];
/// The bytes that a caller tries to send.
const SENT: usize = 40 << 20;
/// The most megabytes that the server takes for one of these connections.
const OF_ONE: usize = 16;
/// The most megabytes that it takes for a thousand of them.
const OF_ALL: usize = 384;

/// Calls that get an error without a look at the token of the caller: a name for each, what comes first, and what repeats.
fn kinds() -> [(&'static str, Vec<u8>, Vec<u8>); 2] {
    // A header of 4,000 bytes that the table of the connection keeps. Nine references to it are too large a head.
    let mut first = POST.to_vec();
    first.extend([0x40, 0x01, b'y', 0x7f, 0xa1, 0x1e]);
    first.extend([b'z'; 4_000]);
    [("malformed", Vec::new(), MALFORMED.to_vec()), ("too large", first, [&POST[..], &[0xbe; 9]].concat())]
}

/// Opens an encrypted connection from another machine.
fn encrypted(sandbox: &Sandbox, authority: &Authority) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::from(IpAddr::from(VICTIM_IPV4));
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, sandbox.peer(|| TcpStream::connect((VICTIM_IPV4, 8443)).unwrap()))
}

/// A caller that sends, and never reads.
struct Flood<S> {
    stream: S,
    repeated: Vec<u8>,
    number: u32,
    /// What has to be sent next.
    next: Vec<u8>,
    sent: usize,
    has_ended: bool,
}

impl<S: Write> Flood<S> {
    fn new(stream: S, first: &[u8], repeated: &[u8]) -> Self {
        let mut flood =
            Self { stream, repeated: repeated.to_vec(), number: 1, next: Vec::new(), sent: 0, has_ended: false };
        if !first.is_empty() {
            flood.next = flood.call(first);
        }
        flood
    }

    fn call(&mut self, block: &[u8]) -> Vec<u8> {
        self.number += 2;
        frame(HEADERS, END_HEADERS | END_STREAM, self.number - 2, block)
    }

    /// Sends some calls, as far as the server takes them.
    fn step(&mut self) {
        if self.next.is_empty() {
            let repeated = self.repeated.clone();
            self.next = (0..1_000).flat_map(|_| self.call(&repeated)).collect();
        }
        match self.stream.write(&self.next) {
            Ok(count) => {
                self.sent += count;
                self.next.drain(..count);
            }
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {}
            Err(_) => self.has_ended = true,
        }
    }
}

/// Has callers send until the server ends all of their connections, or the time is over. Returns the most megabytes by which
/// the server has grown, and the bytes that it has taken.
fn flood(daemon: &Daemon, floods: &mut [Flood<impl Write>], time: Duration) -> (usize, usize) {
    let before = Taken::by(daemon).kilobytes;
    let (begin, mut most) = (Instant::now(), before);
    while begin.elapsed() < scaled(time) && floods.iter().any(|flood| !flood.has_ended && flood.sent < SENT) {
        floods.iter_mut().filter(|flood| !flood.has_ended && flood.sent < SENT).for_each(Flood::step);
        most = most.max(Taken::by(daemon).kilobytes);
    }
    let sent = floods.iter().map(|flood| flood.sent).sum();
    ((most - before) >> 10, sent)
}

#[test]
fn a_caller_of_http_2_that_reads_nothing_fills_no_memory() {
    let sandbox = Sandbox::new();
    for (name, first, repeated) in kinds() {
        let server = Grpc::start(&sandbox);
        let stream = server.connect();
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut floods = [Flood::new(stream, &first, &repeated)];
        let (most, sent) = flood(&server.daemon, &mut floods, Duration::from_secs(20));
        println!("{name}: {sent} bytes sent, {most} MiB more");
        assert!(most < OF_ONE, "{name}: {most} MiB for {sent} bytes");
        server.answers();
        drop(floods);
        server.end();
    }
}

#[test]
#[ignore = "slow: cargo xtask faults --requests"]
fn a_thousand_callers_of_http_2_that_read_nothing_fill_no_memory() {
    let sandbox = Sandbox::new();
    for (name, first, repeated) in kinds() {
        let server = Grpc::start(&sandbox);
        let connect = |_| {
            let stream = server.connect();
            stream.set_nonblocking(true).unwrap();
            Flood::new(stream, &first, &repeated)
        };
        let mut floods: Vec<_> = (0..1_000).map(connect).collect();
        let (most, sent) = flood(&server.daemon, &mut floods, Duration::from_secs(20));
        let ended = floods.iter().filter(|flood| flood.has_ended).count();
        println!("{name}: {sent} bytes sent, {most} MiB more, {ended} connections ended");
        assert!(most < OF_ALL, "{name}: {most} MiB for {sent} bytes");
        drop(floods);
        server.answers();
        recover(&server.daemon, server.before);
    }
}

#[test]
#[ignore = "slow: cargo xtask faults --requests"]
fn a_thousand_callers_of_http_2_whose_messages_never_come_fill_no_memory() {
    let sandbox = Sandbox::new();
    let server = Grpc::start(&sandbox);
    let path = "/grpc.health.v1.Health/Check";
    let mut block = vec![0x83, 0x86, 0x41, 0x01, b'x', 0x44, path.len() as u8];
    block.extend(path.bytes());
    block.extend([0x5f, 16]);
    block.extend(b"application/grpc");
    let calls: Vec<u8> = (0..256).flat_map(|number| frame(HEADERS, END_HEADERS, 2 * number + 1, &block)).collect();
    let streams: Vec<_> = (0..1_000)
        .map(|_| {
            let mut stream = server.connect();
            let _ = stream.write_all(&calls);
            stream
        })
        .collect();
    let (begin, mut most) = (Instant::now(), 0);
    while begin.elapsed() < scaled(Duration::from_secs(9)) {
        most = most.max(Taken::by(&server.daemon).kilobytes >> 10);
    }
    println!("{:?}, then {most} MiB", server.before);
    assert!(most < (server.before.kilobytes >> 10) + OF_ALL, "{most} MiB");
    drop(streams);
    server.answers();
    recover(&server.daemon, server.before);
}

#[test]
#[ignore = "slow: cargo xtask faults --requests"]
fn long_messages_that_never_end_take_bounded_memory_and_short_calls_are_decided_meanwhile() {
    const CONNECTIONS: usize = 4;
    const CALLS: usize = 200;
    let sandbox = Sandbox::new();
    let server = Grpc::start(&sandbox);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (connections, most) = runtime.block_on(async {
        let mut message = vec![0, 0, 0x10, 0, 0];
        message.resize(1 << 20, 0);
        let message = Bytes::from(message);
        let (mut connections, mut most) = (Vec::new(), 0);
        for _ in 0..CONNECTIONS {
            let stream = tokio::net::UnixStream::connect(&server.socket).await.unwrap();
            let (mut connection, work) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(work);
            for _ in 0..CALLS {
                let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
                let call = Request::post("http://x/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
                let answer =
                    connection.send_request(call.header("content-type", "application/grpc").body(body).unwrap());
                let message = message.clone();
                // The last bytes of the message do not come. The server may refuse it before.
                tokio::spawn(async move {
                    let _ = sender.send_data(message).await;
                    drop((answer.await, sender));
                });
            }
            connections.push(connection);
        }
        let begin = Instant::now();
        while begin.elapsed() < scaled(Duration::from_secs(3)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            most = most.max(Taken::by(&server.daemon).kilobytes >> 10);
        }
        (connections, most)
    });
    server.answers();
    drop(connections);
    println!("{:?}, then {most} MiB", server.before);
    assert!(most < (server.before.kilobytes >> 10) + OF_ALL, "{most} MiB");
    server.end();
}

#[test]
fn another_machine_without_a_token_that_reads_nothing_fills_no_memory() {
    let (sandbox, authority) = (Sandbox::new(), Authority::new("authority"));
    let folder = Folder::new();
    let signed = authority.sign(&[&VICTIM_IPV4.to_string()]);
    let certificate = folder.add("cert.pem", &signed.certificate);
    let key = folder.add("key.pem", &signed.key);
    folder.write(&format!(
        "[serve]\ngrpc = \"{VICTIM_IPV4}:8443\"\ntls-cert = \"{}\"\ntls-key = \"{}\"\n{}[[check]]\nname = \"all\"\n\
         limits = \"100/h\"\n",
        certificate.display(),
        key.display(),
        token("envoy", "secret", "\"check\""),
    ));
    let command = Ratelimit::new(&sandbox).command(&format!("serve -c {}", folder.file().display()));
    let mut daemon = Daemon::by(&sandbox, command);
    assert!(daemon.line().starts_with("ratelimit: serving gRPC on https:"));
    for (name, first, repeated) in kinds() {
        let mut stream = encrypted(&sandbox, &authority);
        stream.sock.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        stream.write_all(PREFACE).unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        let mut floods = [Flood::new(stream, &first, &repeated)];
        let (most, sent) = flood(&daemon, &mut floods, Duration::from_secs(20));
        println!("{name} over TLS: {sent} bytes sent, {most} MiB more");
        assert!(most < OF_ONE, "{name}: {most} MiB for {sent} bytes");
    }
}
