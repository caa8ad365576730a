//! Writes of shared rules that the server refuses.

use std::time::Duration;

use ratelimit_fleet::{
    address::{Address, Kind},
    engine::Engine,
    error::Error,
    kept::rules::{Mark, Store},
};
use ratelimit_protocol::fleet::Version;
use ratelimit_tests::{Redis, Sandbox};
use redis::aio::MultiplexedConnection;

async fn do_each(connection: &mut MultiplexedConnection, lines: &[&str]) {
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        redis::cmd(words[0]).arg(&words[1..]).exec_async(connection).await.unwrap();
    }
}

#[test]
fn a_write_that_fails_halfway_changes_neither_the_rules_nor_their_log() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    Redis::at_the_peer(&sandbox, async || {
        let address = Address::new(&[Redis::url()], Kind::Single, None, None).unwrap();
        let engine = Engine::connect(&address, Duration::from_secs(10)).await.unwrap();
        let client = redis::Client::open(Redis::url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let store = Store::default();
        let version = |number: u64| Version { version: number, text: format!("# text {number}\n") };
        let all = async || {
            let (mark, present) = store.read(&engine, None).await.unwrap().unwrap_or_default();
            let numbers: Vec<_> = store.log(&engine).await.unwrap().iter().map(|logged| logged.version).collect();
            (mark, present, numbers)
        };
        // Each one keeps another step from its work, and then not any more.
        let faults = [
            ["CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"],
            ["ACL SETUSER default -hset", "ACL SETUSER default +hset"],
            ["ACL SETUSER default -xadd", "ACL SETUSER default +xadd"],
        ];
        for number in 1..4 {
            let before = all().await;
            assert_eq!(before.1, if number == 1 { Version::default() } else { version(number - 1) });
            for [break_it, mend] in &faults {
                do_each(&mut connection, &[break_it]).await;
                let outcome = store.write(&engine, &before.0, &version(number), ["root", "test"]).await;
                do_each(&mut connection, &[mend]).await;
                assert!(matches!(outcome, Err(Error::Server(_))), "{break_it}: {outcome:?}");
                assert_eq!(all().await, before, "{break_it}");
            }
            assert!(store.write(&engine, &before.0, &version(number), ["root", "test"]).await.unwrap());
        }
        assert_eq!(all().await.2, [3, 2, 1]);
        // The log is of another kind, and the rules are as they were.
        do_each(&mut connection, &["SET {rl:m}:log other"]).await;
        let mark = store.read(&engine, None).await.unwrap().unwrap().0;
        let outcome = store.write(&engine, &mark, &version(4), ["root", "test"]).await;
        assert!(matches!(outcome, Err(Error::Server(_))), "{outcome:?}");
        assert_eq!(store.read(&engine, Some(&mark)).await.unwrap(), None);
        assert!(!store.write(&engine, &Mark::default(), &version(4), ["root", "test"]).await.unwrap());
    });
}
