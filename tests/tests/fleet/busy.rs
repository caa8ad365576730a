//! An instance that is busy, and an engine that answers late.

use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Hosts, Ratelimit, Redis, scaled, wait_until};
use rustix::fs::{FlockOperation, flock};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::{
    rules::{RULES, await_version},
    stage::{at_the_server, block_on, with_daemons_by},
};

/// Returns whether the server has shared rules.
async fn has_rules() -> bool {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", Redis::PORT)).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd("EXISTS").arg("{rl:m}:rules").query_async(&mut connection).await.unwrap()
}

/// Requests of the socket's group that wait leave room for a change, which root alone makes.
#[test]
fn commands_that_only_read_shared_rules_take_no_place_from_a_change() {
    let hosts = Hosts::new(1);
    let _redis = hosts.redis(&[]);
    with_daemons_by(
        &hosts,
        |number| at_the_server(number, RULES),
        |_| {
            let ratelimit = &Ratelimit::new(&hosts.hosts[0]);
            wait_until("the engine answers", || ratelimit.run("fleet status").status == 0);
            let pins = hosts.hosts[0].victim(|| File::open("/sys/fs/bpf/ratelimit").unwrap());
            flock(&pins, FlockOperation::LockExclusive).unwrap();
            thread::scope(|scope| {
                // The daemon waits for the lock, and other requests wait for it.
                let first = scope.spawn(|| ratelimit.fails("fleet rules set 203.0.113.1 --deny"));
                wait_until("the version is written", || hosts.server(|| block_on(has_rules())));
                let reads: Vec<_> = (0..10).map(|_| scope.spawn(|| ratelimit.fails("fleet rules list"))).collect();
                let refused = || reads.iter().filter(|read| read.is_finished()).count();
                wait_until("six of them are refused", || refused() == 6);
                let second = ratelimit.fails("fleet rules set 203.0.113.2 --deny");
                let errors: Vec<_> = reads.into_iter().map(|read| read.join().unwrap()).collect();
                let full = "nothing was changed: 4 other commands wait for the engine of the fleet: try again";
                assert_eq!(errors.iter().filter(|error| error.contains(full)).count(), 6, "{errors:?}");
                for error in [first.join().unwrap(), second] {
                    assert!(error.contains("`ratelimit fleet rules log` shows whether the change was made"), "{error}");
                }
            });
            flock(&pins, FlockOperation::Unlock).unwrap();
            await_version(ratelimit, Some(1), None);
        },
    );
}

#[test]
fn a_change_of_shared_rules_that_waits_keeps_no_other_command_waiting() {
    let hosts = Hosts::new(1);
    let _redis = hosts.redis(&[]);
    with_daemons_by(
        &hosts,
        |number| at_the_server(number, RULES),
        |_| {
            let ratelimit = Ratelimit::new(&hosts.hosts[0]);
            wait_until("the engine answers", || ratelimit.run("fleet status").status == 0);
            let pins = hosts.hosts[0].victim(|| File::open("/sys/fs/bpf/ratelimit").unwrap());
            flock(&pins, FlockOperation::LockExclusive).unwrap();
            let begin = Instant::now();
            thread::scope(|scope| {
                let change = scope.spawn(|| ratelimit.fails("fleet rules set 203.0.113.1 --deny"));
                // The daemon puts the version in force before it answers, so it waits for the lock.
                while begin.elapsed() < Duration::from_secs(4) {
                    assert_eq!(ratelimit.run("fleet status").status, 0);
                    assert!(!change.is_finished());
                }
                let error = change.join().unwrap();
                assert!(error.contains("`ratelimit fleet rules log` shows whether the change was made"), "{error}");
            });
            assert!(begin.elapsed() < scaled(Duration::from_secs(8)), "{:?}", begin.elapsed());
            flock(&pins, FlockOperation::Unlock).unwrap();
            await_version(&ratelimit, Some(1), None);
        },
    );
}

/// Port of the proxy.
const PROXY: u16 = 6_400;

/// Forwards what hosts and the server say. The server's answer to a write of shared rules arrives late.
async fn forward_late(listener: TcpListener) {
    while let Ok((host, _)) = listener.accept().await {
        let server = TcpStream::connect(("127.0.0.1", Redis::PORT)).await.unwrap();
        let is_late = Arc::new(AtomicBool::new(false));
        let ((mut from_host, mut to_host), (mut from_server, mut to_server)) = (host.into_split(), server.into_split());
        let of_answers = Arc::clone(&is_late);
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length @ 1..) = from_host.read(&mut buffer).await {
                let is_write = buffer[..length].windows(11).any(|words| words == b"$5\r\nwrite\r\n");
                is_late.fetch_or(is_write, Ordering::SeqCst);
                if to_server.write_all(&buffer[..length]).await.is_err() {
                    break;
                }
            }
        });
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                if of_answers.swap(false, Ordering::SeqCst) {
                    sleep(Duration::from_secs(1)).await;
                }
                if to_host.write_all(&buffer[..length]).await.is_err() {
                    break;
                }
            }
        });
    }
}

#[test]
fn a_change_that_the_engine_confirms_too_late_is_not_told_to_have_failed() {
    let hosts = Hosts::new(1);
    let _redis = hosts.redis(&[]);
    let (end, has_ended) = tokio::sync::oneshot::channel::<()>();
    thread::scope(|scope| {
        let hosts = &hosts;
        scope.spawn(move || {
            hosts.server(|| {
                block_on(async {
                    let listener = TcpListener::bind(("0.0.0.0", PROXY)).await.unwrap();
                    tokio::select! {
                        () = forward_late(listener) => {}
                        _ = has_ended => {}
                    }
                });
            });
        });
        let keys = |number| at_the_server(number, RULES).replace(&format!(":{}", Redis::PORT), &format!(":{PROXY}"));
        with_daemons_by(hosts, keys, |_| {
            let ratelimit = Ratelimit::new(&hosts.hosts[0]);
            wait_until("the engine answers", || ratelimit.run("fleet status").status == 0);
            let error = ratelimit.fails("fleet rules set 203.0.113.1 --deny");
            assert!(error.contains("the engine has not confirmed the change: no answer within"), "{error}");
            assert!(error.contains("`ratelimit fleet rules log` shows whether it was made"), "{error}");
            wait_until("the engine answers again", || ratelimit.run("fleet rules log").status == 0);
            assert_eq!(ratelimit.json("fleet rules log")[0]["version"], 1);
            await_version(&ratelimit, Some(1), None);
        });
        drop(end);
    });
}
