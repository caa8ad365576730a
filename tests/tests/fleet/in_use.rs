//! `fleet status` names the server in use, where several can be.

use ratelimit_tests::{Hosts, Ratelimit, Redis, Sentinels, wait_until};

use crate::stage::{list, with_daemons_by};

/// Waits until the first line of `fleet status` begins so.
fn await_engine(ratelimit: &Ratelimit<'_>, begin: &str) {
    wait_until(begin, || ratelimit.run("fleet status").stdout.starts_with(begin));
}

#[test]
fn status_names_the_server_of_several_that_this_host_talks_to() {
    let hosts = Hosts::new(1);
    let other = Hosts::url(0).replace(&Redis::PORT.to_string(), &(Redis::PORT + 1).to_string());
    let redis = hosts.redis(&[]);
    let [one, two] = [&other, &Hosts::url(0)].map(|url| url.replace("redis://", ""));
    let both = format!("engine = [\"{other}\", \"{}\"]\n", Hosts::url(0));
    with_daemons_by(
        &hosts,
        |_| both.clone(),
        |_| {
            let ratelimit = Ratelimit::new(&hosts.hosts[0]);
            await_engine(&ratelimit, &format!("engine {one}, {two} ({two} is in use) has answered for "));
            assert_eq!(ratelimit.json("fleet status")["engine"], format!("{one}, {two}"));
            assert_eq!(ratelimit.json("fleet status").get("in_use"), None);
            // None is in use while none answers.
            drop(redis);
            await_engine(&ratelimit, &format!("engine {one}, {two} has not answered for "));
            let _redis = hosts.redis(&[]);
            await_engine(&ratelimit, &format!("engine {one}, {two} ({two} is in use) has answered for "));
        },
    );
    // Nothing has to be told of the only one.
    let _redis = hosts.redis(&[]);
    let single = format!("engine = \"{}\"\n", Hosts::url(0));
    with_daemons_by(
        &hosts,
        |_| single.clone(),
        |_| await_engine(&Ratelimit::new(&hosts.hosts[0]), &format!("engine {two} has answered for ")),
    );
}

#[test]
fn status_names_the_server_that_sentinels_name() {
    let hosts = Hosts::new(1);
    let mut sentinels = hosts.sentinels();
    let urls = list(&Sentinels::urls("redis"));
    let keys = format!("engine = [{urls}]\nservers = \"sentinel\"\nmaster = \"{}\"\n", Sentinels::MASTER);
    with_daemons_by(
        &hosts,
        |_| keys.clone(),
        |_| {
            let ratelimit = Ratelimit::new(&hosts.hosts[0]);
            let names = |port: u16| {
                let in_use = format!(":{port} is in use) has answered for ");
                wait_until(&in_use, || {
                    ratelimit.run("fleet status").stdout.lines().next().unwrap_or_default().contains(&in_use)
                });
            };
            names(Redis::PORT);
            sentinels.master = None;
            names(Redis::PORT + 1);
        },
    );
}
