//! The server that reads hostile input.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
};

use anyhow::{Context as _, Result, ensure};
use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

/// The token that may change rules.
pub(super) const TOKEN: &str = "YWRtaW4";
/// Its SHA-256.
const HASH: &str = "f68a6793a378453a76d4fdcae3ea2d20cf24eb13a8cc4777b9ce7f10a9af5ca9";

pub(super) struct Server {
    daemon: Daemon,
    pub(super) http: PathBuf,
    pub(super) grpc: PathBuf,
    _folder: Folder,
}

impl Server {
    pub(super) fn start(sandbox: &Sandbox) -> Self {
        let folder = Folder::new();
        let [http, grpc, store] =
            ["http.sock", "grpc.sock", "rules.toml"].map(|name| folder.file().with_file_name(name));
        let rules: String = ["token-bucket", "queue", "sliding-counters", "sliding-log"]
            .map(|algorithm| {
                format!(
                    "[[check]]\nname = \"{algorithm}\"\nkey = \"user\"\nlimits = [\"9/s\", \"90/m\"]\nalgorithm = \
                     \"{algorithm}\"\nclients = 4096\n"
                )
            })
            .concat();
        folder.write(&format!(
            "[serve]\nhttp = \"unix:{}\"\ngrpc = \"unix:{}\"\nrules = \"{}\"\n{rules}[[check]]\nname = \"by-ip\"\nkey = \
             \"ip\"\nlimits = \"5/s\"\nclients = 4096\n[[token]]\nname = \"admin\"\nsha256 = \"{HASH}\"\nscope = \
             [\"rules:*\", \"rules:read\"]\n",
            http.display(),
            grpc.display(),
            store.display()
        ));
        let command = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
        let mut daemon = Daemon::by(sandbox, command);
        let line = daemon.line();
        assert!(line.starts_with("ratelimit: serving unix:"), "{line}");
        Self { daemon, http, grpc, _folder: folder }
    }

    pub(super) fn kilobytes(&self) -> Result<u64> {
        kilobytes(&self.daemon.process.child.id().to_string()).context("the server has ended")
    }

    /// Fails unless the server still answers.
    pub(super) fn check(&self) -> Result<()> {
        let mut stream = UnixStream::connect(&self.http)?;
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "the server answers {answer:?}");
        Ok(())
    }
}

/// Returns the memory of a process.
pub(super) fn kilobytes(process: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
