//! A name server and its clients.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use ratelimit_tests::{Sandbox, VICTIM_IPV4, VICTIM_IPV6};

use crate::run::run;

/// Records of the server.
const RECORDS: [&str; 5] = [
    "--local=/example.test/",
    "--host-record=www.example.test,192.0.2.7,2001:db8::7",
    "--mx-host=example.test,mail.example.test,10",
    "--host-record=mail.example.test,192.0.2.25",
    "--txt-record=example.test,v=spf1 mx -all",
];

/// Queries of the clients.
const QUESTIONS: [&str; 6] = [
    "A www.example.test",
    "AAAA www.example.test",
    "MX example.test",
    "TXT example.test",
    "A absent.example.test",
    "A www.example.test +tcp",
];

/// Runs a name server at the victim, which the peer queries over both families.
pub(crate) fn ask(sandbox: &Sandbox) -> Result<()> {
    let mut command = Command::new("dnsmasq");
    command.args(["--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]).args(RECORDS);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = sandbox.start(command);
    // Kept open until the end, since the server continues to write to it.
    let mut log = BufReader::new(server.child.stderr.take().context("dnsmasq has no stderr")?);
    let mut line = String::new();
    while !line.contains("started") {
        line.clear();
        let length = log.read_line(&mut line)?;
        ensure!(length > 0, "dnsmasq did not start");
    }
    for address in [VICTIM_IPV4.to_string(), VICTIM_IPV6.to_string()] {
        for question in QUESTIONS {
            sandbox.peer(|| run(&format!("dig @{address} +tries=1 +time=5 {question}")))?;
        }
    }
    Ok(())
}
