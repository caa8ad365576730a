//! Daemons of several hosts share a limit by encrypted connections.

use ratelimit_fleet::{
    address::{Address, Kind},
    engine::Engine,
};
use ratelimit_tests::{Authority, Cluster, Daemon, Encryption, Folder, Hosts, Ratelimit, Redis, Sentinels};

use super::{PATIENCE, certificates};
use crate::{
    engine::{message, report},
    stage::{RATE, Traffic, alone, file, one_limit, wait, with_daemons_by},
};

fn url(host: usize) -> String {
    Hosts::url(host).replace("redis://", "rediss://")
}

fn start(hosts: &Hosts, files: &Encryption) -> Redis {
    let options = files.server(Redis::PORT, &[]);
    hosts.redis(&options.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn hosts_share_a_limit_by_encrypted_connections() {
    let _alone = alone();
    let hosts = Hosts::new(2);
    let authority = Authority::new("authority");
    let server = Encryption::new(&authority.sign(&["10.8.0.254", "10.8.1.254"]), &authority.pem);
    let _redis = start(&hosts, &server);
    let own = Encryption::new(&authority.sign(&["host"]), &authority.pem);
    let keys = |host| format!("engine = \"{}\"\n{}", url(host), own.keys());
    with_daemons_by(&hosts, keys, |daemons| {
        for daemon in daemons {
            let line = daemon.line();
            assert!(line.ends_with("answers: limits are shared"), "{line}");
        }
        let traffic = Traffic::begin(&hosts, &[5 * RATE; 2]);
        wait(8.0);
        let seconds = traffic.seconds(5);
        println!("{seconds:?}");
        one_limit(&seconds, 0.05);
    });
}

#[test]
fn without_the_right_authority_local_limits_apply_until_a_reload_reads_it() {
    let _alone = alone();
    let hosts = Hosts::new(1);
    let [authority, other] = ["authority", "other"].map(Authority::new);
    let server = Encryption::new(&authority.sign(&["10.8.0.254"]), &authority.pem);
    let _redis = start(&hosts, &server);
    let (folder, own) = (Folder::new(), Encryption::new(&authority.sign(&["host"]), &authority.pem));
    let trusted = folder.add("authority", &other.pem);
    let keys = format!("engine = \"{}\"\nca-file = \"{}\"\n{}", url(0), trusted.display(), own.keys_of_host());
    folder.write(&file(0, &keys));
    let ratelimit = Ratelimit::new(&hosts.hosts[0]);
    let mut daemon = Daemon::start(&hosts.hosts[0], &ratelimit, &folder.file());
    let reason = "its certificate is not signed by an authority that this host trusts";
    for expected in ["in force", reason] {
        let line = daemon.line();
        assert!(line.contains(expected), "{line}");
    }
    let traffic = Traffic::begin(&hosts, &[3 * RATE]);
    wait(4.0);
    let seconds = traffic.seconds(2);
    one_limit(&seconds, 0.02);
    let status = ratelimit.run("fleet status");
    assert!(status.status == 1 && status.stdout.contains(reason), "{status:?}");
    let _same = folder.add("authority", &authority.pem);
    ratelimit.ok("reload");
    let lines = [daemon.line(), daemon.line()];
    assert!(lines.iter().any(|line| line.contains("reloaded")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("limits are shared")), "{lines:?}");
    drop(traffic);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_cluster_and_sentinels_with_encrypted_connections_answer() {
    let hosts = Hosts::new(1);
    let authority = Authority::new("authority");
    let server = Encryption::new(&authority.sign(&[&Cluster::address()]), &authority.pem);
    let cluster = hosts.encrypted_cluster(&server);
    answers(&hosts, &authority, &cluster.urls(), &Kind::Cluster);
    drop(cluster);
    let _sentinels = hosts.encrypted_sentinels(&server);
    answers(&hosts, &authority, &Sentinels::urls("rediss"), &Kind::Sentinel(Sentinels::MASTER.to_owned()));
}

/// Reports to an engine, and to the same one without the right authority.
fn answers(hosts: &Hosts, authority: &Authority, urls: &[String], kind: &Kind) {
    let shown = authority.sign(&["host"]);
    let connect = |trusted: &Authority| {
        let address = Address::new(urls, kind.clone(), None, None).unwrap();
        address.with(certificates(trusted, Some(&shown))).unwrap()
    };
    let (right, wrong) = (connect(authority), connect(&Authority::new("other")));
    hosts.hosts[0].victim(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let engine = Engine::connect(&right, PATIENCE).await.unwrap();
            // Sources of all servers.
            let messages: Vec<_> = (0..64).map(|number| message(&format!("10.0.0.{number}"), 10.0, 10.0)).collect();
            assert_eq!(report(&engine, &messages).await.unwrap().len(), 64);
            let error = Engine::connect(&wrong, PATIENCE).await.err().unwrap().to_string();
            assert_eq!(error, "its certificate is not signed by an authority that this host trusts");
        });
    });
}
