//! Temporary.
use std::{fs, time::Duration};

use crate::stage::{alone, wait};
use ratelimit_tests::{Daemon, Flood, Folder, Frame, Hosts, Ratelimit};

fn cpu(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().map(str::to_owned).collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

#[test]
fn cost_of_many_sources() {
    let _alone = alone();
    for (sources, pace, limit) in [(10_000u32, 50_000u64, "10/s"), (10_000, 50_000, "4/s"), (10_000, 10_000, "100/s")] {
        let hosts = Hosts::new(1);
        let redis = hosts.redis(&[]);
        let folder = Folder::new();
        folder.write(&format!(
            "interfaces = [\"eth0\"]\n[default]\npackets = \"{limit}\"\n[settings]\nfront = false\n[fleet]\nengine = \"{}\"\n",
            Hosts::url(0)
        ));
        let ratelimit = Ratelimit::new(&hosts.hosts[0]);
        let mut daemon = Daemon::start(&hosts.hosts[0], &ratelimit, &folder.file());
        daemon.line();
        let flood = Flood::of(Frame::udp(std::net::Ipv4Addr::new(10, 9, 1, 0), 9))
            .sources(sources)
            .pace(pace)
            .start(&hosts.hosts[0]);
        wait(15.0);
        let pid = daemon.process.child.id();
        let (before, redis_before) = (cpu(pid), cpu(redis.process.child.id()));
        let first = ratelimit.json("fleet status");
        wait(5.0);
        let (after, redis_after) = (cpu(pid), cpu(redis.process.child.id()));
        let status = ratelimit.json("fleet status");
        let rss = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let rss = rss.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_owned();
        println!(
            "{sources} {pace} {limit}: daemon {:.1} % redis {:.1} % {rss} reported {} shared {} reports/s {} failures {} latency {}",
            (after - before) * 20.0,
            (redis_after - redis_before) * 20.0,
            status["reported"],
            status["shared"],
            (status["reports"].as_u64().unwrap() - first["reports"].as_u64().unwrap()) as f64 / 5.0,
            status["failures"],
            status["latency_ms"]
        );
        drop(flood);
        daemon.end();
        ratelimit.ok("detach --all");
    }
    let _ = Duration::ZERO;
}
