//! `ratelimit replay`.

mod notes;
mod report;

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read},
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, bail};
use ratelimit_base::text::excerpt::escaped;
use ratelimit_daemon::config::{self, Config};

use self::report::Report;
use crate::{
    cli::{
        daemon::REQUEST_TABLES,
        print::{answer::Answer, output::Output},
    },
    replay::{
        capture::Capture,
        judge::{self, Host, JudgeError},
    },
};

/// Show which packets of a capture a configuration file lets pass; changes nothing
///
/// Runs the program in the kernel with each packet of a capture, at the time of the packet, and shows what it drops. It
/// needs no interface and no running instance. Connections of this host, its fleet and shadow mode are left out.
///
/// `tcpdump -i eth0 -Q in -s 128 -w FILE` captures incoming packets.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Capture in the format pcap or pcapng, or `-` for standard input
    #[arg(value_name = "FILE")]
    capture: PathBuf,
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "/etc/ratelimit/ratelimit.toml")]
    config: PathBuf,
    /// Use the capacity of this interface of the file, for elastic limits
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Leave out packets from this address of the host, if the capture does not tell their direction
    #[arg(long, value_name = "ADDRESS")]
    host: Vec<IpAddr>,
    /// List so many sources, those with the most dropped packets first
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<Answer> {
    let config = config::read(&arguments.config, REQUEST_TABLES)?;
    let capacity = capacity(&config, arguments.interface.as_deref())?;
    let host = Host { capacity, addresses: arguments.host.clone() };
    let path = &arguments.capture;
    let (name, reader): (String, Box<dyn Read>) = if path == Path::new("-") {
        ("standard input".to_owned(), Box::new(io::stdin().lock()))
    } else {
        let name = escaped(&path.display().to_string());
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        (name, Box::new(file))
    };
    let of_capture = |error| anyhow!("{name} {error}");
    let mut capture = Capture::open(reader).map_err(of_capture)?;
    let judged = judge::judge(&mut capture, &config, &host).map_err(|error| match error {
        JudgeError::Capture(error) => of_capture(error),
        JudgeError::Program(error) => error.into(),
    })?;
    let report = Report::new(name, &arguments.config, &config, &judged, arguments.top as usize);
    output.print(&report, |out| report.write(out))?;
    Ok(Answer::Done)
}

/// Returns the capacity of the interface whose packets these are, in packets per second. 0 for none.
fn capacity(config: &Config, interface: Option<&str>) -> Result<u64> {
    let of = |interface: &config::Interface| interface.capacity.unwrap_or(0);
    if let Some(name) = interface {
        let found = config.interfaces.iter().find(|interface| interface.name == escaped(name));
        return found.map(of).with_context(|| format!("the file has no interface {}", escaped(name)));
    }
    let all: BTreeSet<u64> = config.interfaces.iter().map(of).collect();
    if all.len() > 1 {
        bail!("the interfaces of the file have different capacities: choose one with --interface NAME");
    }
    Ok(all.first().copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capacity_is_that_of_the_chosen_interface() {
        let config =
            config::parse("interfaces = [\"a\", \"b\"]\n[interface.a]\ncapacity = \"5000/s\"\n", |_| 0).unwrap();
        assert_eq!(capacity(&config, Some("a")).unwrap(), 5_000);
        assert_eq!(capacity(&config, Some("b")).unwrap(), 0);
        assert!(capacity(&config, Some("c")).is_err() && capacity(&config, None).is_err());
        let same = config::parse("interfaces = [\"a\", \"b\"]\n", |_| 0).unwrap();
        assert_eq!(capacity(&same, None).unwrap(), 0);
    }
}
