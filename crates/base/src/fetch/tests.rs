//! Requests to real servers on this host.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, IF_NONE_MATCH};
use rcgen::{CertificateParams, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer};

use super::*;

/// A server that gives each connection the next of its answers.
struct Server {
    port: u16,
    /// The requests that it got.
    requests: mpsc::Receiver<String>,
}

fn server(encryption: Option<Arc<ServerConfig>>, answers: Vec<String>) -> Server {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            // A client that refuses the server breaks the connection.
            let _ = match &encryption {
                None => serve(stream, &answer, &sender),
                Some(config) => {
                    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                    serve(StreamOwned::new(connection, stream), &answer, &sender)
                }
            };
        }
    });
    Server { port, requests }
}

fn serve(mut stream: impl Read + Write, answer: &str, requests: &mpsc::Sender<String>) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    let _ = requests.send(String::from_utf8(request).unwrap());
    stream.write_all(answer.as_bytes())?;
    stream.flush()?;
    // The answer is not complete while the client waits for more.
    if answer.contains("Content-Length: 99") { stream.read_exact(&mut byte) } else { Ok(()) }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn get(address: &str) -> Get {
    Get {
        address: address.parse().unwrap(),
        headers: HeaderMap::new(),
        trust: Trust::default(),
        redirects: 3,
        most: 1_000,
        time: Duration::from_secs(20),
    }
}

/// Sends a request, and reads the body.
fn fetch(get: Get) -> Result<(u16, String), FetchError> {
    let Answer { status, mut body, .. } = get.send()?;
    let mut text = String::new();
    match body.read_to_string(&mut text) {
        Ok(_) => Ok((status.as_u16(), text)),
        Err(error) => Err(error.downcast::<FetchError>().unwrap()),
    }
}

fn secret(text: &'static str) -> HeaderValue {
    let mut secret = HeaderValue::from_static(text);
    secret.set_sensitive(true);
    secret
}

/// Returns an authority as PEM, and the encryption of a server that it has signed for a name.
fn certified(name: &str) -> (String, Arc<ServerConfig>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
    let secret = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = builder.with_single_cert(vec![certificate.der().clone()], secret).unwrap();
    (certificate.pem(), Arc::new(config))
}

#[test]
fn a_request_has_its_headers_and_gets_the_body() {
    let server = server(None, vec![answer("200 OK", "ETag: \"2\"\r\n", "192.0.2.1\n")]);
    let mut get = get(&format!("http://127.0.0.1:{}/feed?key=7#part", server.port));
    get.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("\"1\""));
    get.headers.insert(AUTHORIZATION, secret("Bearer token"));
    let Answer { status, headers, mut body } = get.send().unwrap();
    let mut text = String::new();
    body.read_to_string(&mut text).unwrap();
    assert_eq!((status.as_u16(), text.as_str()), (200, "192.0.2.1\n"));
    assert_eq!(headers.get("etag").unwrap(), "\"2\"");
    let request = server.requests.recv().unwrap();
    assert!(request.starts_with("GET /feed?key=7 HTTP/1.1\r\n"), "{request}");
    let host = format!("host: 127.0.0.1:{}", server.port);
    for line in [host.as_str(), "if-none-match: \"1\"", "authorization: Bearer token", "accept-encoding: identity"] {
        assert!(request.contains(&format!("\r\n{line}\r\n")), "{line} in {request}");
    }
}

#[test]
fn a_redirect_to_another_server_does_not_get_secrets() {
    let other = server(None, vec![answer("200 OK", "", "there")]);
    let location = format!("Location: http://127.0.0.1:{}/b\r\n", other.port);
    let first = server(
        None,
        vec![answer("302 Found", "Location: here?x=1\r\n", ""), answer("307 Temporary Redirect", &location, "")],
    );
    let mut get = get(&format!("http://127.0.0.1:{}/lists/a", first.port));
    get.headers.insert(AUTHORIZATION, secret("Bearer token"));
    get.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("\"1\""));
    assert_eq!(fetch(get).unwrap(), (200, "there".to_owned()));
    let requests: Vec<_> = first.requests.iter().take(2).collect();
    assert!(requests[1].starts_with("GET /lists/here?x=1 "), "{}", requests[1]);
    assert!(requests.iter().all(|request| request.contains("Bearer token")));
    let request = other.requests.recv().unwrap();
    assert!(!request.contains("Bearer") && request.contains("if-none-match"), "{request}");
}

#[test]
fn redirects_are_bounded_and_keep_to_http() {
    let again = || answer("301 Moved Permanently", "Location: /\r\n", "");
    let server_of = |answers| server(None, answers);
    let ring = server_of(vec![again(), again(), again(), again()]);
    assert_eq!(fetch(get(&format!("http://127.0.0.1:{}/", ring.port))), Err(FetchError::Redirects(3)));
    for location in ["", "Location: file:///etc/shadow\r\n", "Location: http://name:password@host/\r\n"] {
        let bad = server_of(vec![answer("302 Found", location, "")]);
        assert_eq!(fetch(get(&format!("http://127.0.0.1:{}/", bad.port))), Err(FetchError::Location));
    }
    let open = server_of(vec![answer("302 Found", "Location: http://feeds.example/\r\n", "")]);
    assert_eq!(fetch(get(&format!("http://127.0.0.1:{}/", open.port))), Err(FetchError::Downgrade));
    let (authority, encryption) = certified("localhost");
    let plain = server(Some(encryption), vec![answer("302 Found", "Location: http://127.0.0.1/\r\n", "")]);
    let get = get(&format!("https://localhost:{}/", plain.port));
    let trust = Trust::of_pem(authority.as_bytes()).unwrap();
    assert_eq!(fetch(Get { trust, ..get }), Err(FetchError::Downgrade));
}

#[test]
fn a_body_is_bounded_in_size_and_time_and_complete() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n5\r\n67890\r\n0\r\n\r\n";
    for (most, expected) in [(10, Ok((200, "1234567890".to_owned()))), (9, Err(FetchError::Large(9)))] {
        for answer in [chunked.to_owned(), answer("200 OK", "", "1234567890")] {
            let server = server(None, vec![answer]);
            let get = get(&format!("http://127.0.0.1:{}/", server.port));
            assert_eq!(fetch(Get { most, ..get }), expected);
        }
    }
    let slow = server(None, vec!["HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n1234".to_owned()]);
    let time = Duration::from_millis(300);
    let late = fetch(Get { time, ..get(&format!("http://127.0.0.1:{}/", slow.port)) });
    assert_eq!(late, Err(FetchError::Late(time)));
    for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234", "SSH-2.0-OpenSSH\r\n", ""] {
        let server = server(None, vec![answer.to_owned()]);
        let broken = fetch(get(&format!("http://127.0.0.1:{}/", server.port)));
        assert!(matches!(broken, Err(FetchError::Broken { .. })), "{answer}: {broken:?}");
    }
    let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    let large = server(None, vec![head]);
    assert!(matches!(fetch(get(&format!("http://127.0.0.1:{}/", large.port))), Err(FetchError::Broken { .. })));
}

#[test]
fn only_trusted_servers_of_the_right_name_are_asked() {
    let (authority, encryption) = certified("localhost");
    let (other, _) = certified("localhost");
    let trust = |pem: &String| Trust::of_pem(pem.as_bytes()).unwrap();
    for (host, trust, expected) in [
        ("localhost", trust(&authority), None),
        ("127.0.0.1", trust(&authority), Some("another name")),
        ("localhost", trust(&other), Some("no trusted authority")),
        ("localhost", Trust::System, Some("authority")),
    ] {
        let server = server(Some(Arc::clone(&encryption)), vec![answer("200 OK", "", "1")]);
        let fetched = fetch(Get { trust, ..get(&format!("https://{host}:{}/", server.port)) });
        match expected {
            None => assert_eq!(fetched, Ok((200, "1".to_owned()))),
            Some(text) => assert!(fetched.as_ref().unwrap_err().to_string().contains(text), "{fetched:?}"),
        }
    }
    let plain = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let get = get(&format!("https://localhost:{}/", plain.local_addr().unwrap().port()));
    let refuses = move || plain.accept().unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let refuses = thread::spawn(refuses);
    let error = fetch(Get { trust: trust(&authority), ..get }).unwrap_err();
    assert!(error.to_string().contains("it answers without encryption"), "{error}");
    refuses.join().unwrap();
}

#[test]
fn a_server_that_is_away_is_an_error() {
    // Nobody listens on port 1, which no other test can get.
    let error = fetch(get("http://127.0.0.1:1/")).unwrap_err();
    assert!(error.to_string().starts_with("cannot connect to 127.0.0.1:1: "), "{error}");
    // A connection that is accepted and closed.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let closes = thread::spawn(move || drop(listener.accept().unwrap()));
    let broken = fetch(get(&address));
    assert!(matches!(broken, Err(FetchError::Broken { .. })), "{broken:?}");
    closes.join().unwrap();
}

#[test]
fn addresses_have_http_and_no_password() {
    let parse = |text: &str| text.parse::<Address>();
    for text in ["", "feed.txt", "/feed", "ftp://host/", "file:///etc/passwd", "https://", "http://host:0/"] {
        assert_eq!(parse(text), Err(AddressError::Form), "{text}");
    }
    assert_eq!(parse("https://name:password@host/"), Err(AddressError::Credentials));
    assert_eq!(parse(&format!("https://host/{}", "x".repeat(2_048))), Err(AddressError::Long));
    let address = parse("HTTPS://Feeds.Example/a?key=secret#b").unwrap();
    assert_eq!(address.to_string(), "https://feeds.example/a");
    assert_eq!(address.as_str(), "https://feeds.example/a?key=secret");
    assert!(address.is_encrypted() && !address.is_loopback());
    for (text, is_loopback) in [("http://[::1]:8080/", true), ("http://127.0.0.2", true), ("http://host", false)] {
        assert_eq!(parse(text).unwrap().is_loopback(), is_loopback);
    }
}
