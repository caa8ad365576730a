//! The client in the library, with servers that answer.

mod encrypted;
mod failures;
mod waits;

use std::{
    fs,
    future::Future,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use ratelimit_client::caller::{Balance, Caller, Options, Question, Server as Named};
use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

use super::{RULES, Server, answer, of_user};

/// A rule that admits all requests of these tests.
pub(super) const WIDE: &str = "[[check]]\nname = \"wide\"\nkey = \"user\"\nlimits = \"1M/s\"\n";
/// Times that no server exceeds, however busy the machine is.
pub(super) const PATIENT: Options = Options {
    balance: Balance::RoundRobin,
    try_time: Duration::from_secs(20),
    total_time: Duration::from_secs(60),
    calls: 256,
    backoff: Duration::from_millis(50),
    longest_backoff: Duration::from_secs(10),
};

pub(super) fn question() -> Question {
    Question::new([("operation", "createURL"), ("user", "17")])
}

pub(super) fn named(socket: &Path) -> Named {
    Named::new(format!("unix:{}", socket.display()).parse().unwrap())
}

pub(super) fn caller(servers: &[&Server], options: Options) -> Caller {
    Caller::new(servers.iter().map(|server| named(&server.socket)), options).unwrap()
}

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Returns how many requests the server has decided so.
pub(super) fn decisions(server: &Server, decision: &str) -> u64 {
    let page = server.call("GET /metrics HTTP/1.1", "").body;
    let name = format!("ratelimit_check_decisions_total{{decision=\"{decision}\"}} ");
    page.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[test]
fn an_answer_has_all_that_the_server_says_and_a_batch_is_charged_as_a_whole() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let caller = caller(&[&server], PATIENT);
    block_on(async {
        let answer = caller.check(&question()).await;
        assert_eq!((answer.is_decided(), answer.is_allowed, answer.remaining), (true, true, Some(2)));
        let limit = answer.limit.map(|limit| limit.to_string());
        assert_eq!((answer.rule.as_deref(), limit.as_deref()), (Some("create-url"), Some("3/m")));
        let refused = caller.check(&question().with_cost(3)).await;
        assert_eq!((refused.is_decided(), refused.is_allowed, refused.remaining), (true, false, Some(2)));
        let wait = refused.retry_after.unwrap();
        assert!((Duration::from_secs(30)..Duration::from_secs(67)).contains(&wait), "{wait:?}");
        let batch = caller.check_all(&[question(), question(), question()]).await;
        assert_eq!((batch.undecided, batch.are_allowed, batch.answers.len()), (None, false, 3));
        let batch = caller.check_all(&[question(), question()]).await;
        assert_eq!((batch.undecided, batch.are_allowed, batch.answers.len()), (None, true, 2));
        assert!(!caller.check(&question()).await.is_allowed);
        let other = caller.check(&Question::new([("operation", "deleteURL")])).await;
        assert_eq!((other.is_decided(), other.is_allowed, other.rule), (true, true, None));
    });
    drop(caller);
    server.end();
}

#[test]
fn requests_follow_the_weights_of_servers_exactly() {
    let sandbox = Sandbox::new();
    let [light, heavy] = [(); 2].map(|()| Server::start(&sandbox, WIDE));
    let servers = [named(&light.socket), named(&heavy.socket).with_weight(3)];
    let caller = Caller::new(servers, PATIENT).unwrap();
    block_on(async {
        for _ in 0..40 {
            assert!(caller.check(&question()).await.is_decided());
        }
    });
    drop(caller);
    assert_eq!((decisions(&light, "allowed"), decisions(&heavy, "allowed")), (10, 30));
    light.end();
    heavy.end();
}

#[test]
fn a_loaded_server_gets_no_requests_as_long_as_another_one_is_free() {
    let sandbox = Sandbox::new();
    let [free, loaded] = [(); 2].map(|()| Server::start(&sandbox, WIDE));
    // Calls whose bodies have not arrived are under way.
    let body = of_user("18").to_string();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = UnixStream::connect(&loaded.socket).unwrap();
            let length = body.len();
            let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nexpect: 100-continue";
            write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n").unwrap();
            let mut continued = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
            stream.read_exact(&mut continued).unwrap();
            stream
        })
        .collect();
    assert_eq!(loaded.check(&of_user("17")).header("ratelimit-load"), Some("21"));
    assert_eq!(free.check(&of_user("17")).header("ratelimit-load"), Some("1"));
    let caller = caller(&[&free, &loaded], Options { balance: Balance::LeastLoad, ..PATIENT });
    let (mut count, begin) = (0, Instant::now());
    block_on(async {
        // Both are unknown at first. The loaded one is asked until its first report.
        for _ in 0..200 {
            assert!(caller.check(&question()).await.is_decided());
            count += 1;
        }
    });
    let of_loaded = decisions(&loaded, "allowed") - 1;
    // A report of 20 calls is forgotten after five seconds.
    assert!(of_loaded <= 1 + begin.elapsed().as_secs() / 5, "{of_loaded}");
    assert_eq!(decisions(&free, "allowed") - 1, count - of_loaded);
    for mut stream in calls {
        stream.write_all(body.as_bytes()).unwrap();
        assert_eq!(answer(stream).status, 200);
    }
    assert_eq!(loaded.check(&of_user("17")).header("ratelimit-load"), Some("1"));
    drop(caller);
    free.end();
    loaded.end();
}

#[test]
fn questions_share_one_connection() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, WIDE);
    let caller = caller(&[&server], PATIENT);
    let sockets = || {
        let links = fs::read_dir(format!("/proc/{}/fd", server.daemon.process.child.id())).unwrap();
        let mut links: Vec<_> = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok()).collect();
        links.retain(|link| link.to_string_lossy().starts_with("socket:"));
        links.sort();
        links
    };
    let before = sockets();
    block_on(async {
        assert!(caller.check(&question()).await.is_decided());
        let first = sockets();
        assert_eq!(first.len(), before.len() + 1);
        for _ in 0..100 {
            assert!(caller.check(&question()).await.is_decided());
        }
        assert_eq!(sockets(), first);
    });
    drop(caller);
    server.end();
}

/// Starts a server on `127.0.0.1:8080`, without encryption.
fn by_tcp(sandbox: &Sandbox) -> (Daemon, Folder) {
    let folder = Folder::new();
    folder.write(&format!("[serve]\nhttp = \"127.0.0.1:8080\"\n{RULES}"));
    let command = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
    let mut daemon = Daemon::by(sandbox, command);
    assert_eq!(daemon.line(), "ratelimit: serving http://127.0.0.1:8080 by 1 rule");
    (daemon, folder)
}

#[test]
fn a_server_is_asked_by_tcp() {
    let sandbox = Sandbox::new();
    let _server = by_tcp(&sandbox);
    let caller = Caller::new([Named::new("http://127.0.0.1:8080".parse().unwrap())], PATIENT).unwrap();
    let remaining = sandbox.victim(|| block_on(async { caller.check(&question()).await.remaining }));
    assert_eq!(remaining, Some(2));
}
