//! A real nginx in a namespace.

use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use super::unpacked;
use crate::{PATIENCE, Process, Sandbox, VICTIM_IPV4};

/// Its folder in the sandbox's own `/run`, which ends with the sandbox.
const FOLDER: &str = "/run/nginx";

/// A running nginx with one process, killed on drop.
#[derive(Debug)]
pub struct Nginx {
    _process: Process,
}

impl Nginx {
    /// Starts nginx in the victim's namespace. It accepts connections on this port when this returns. `server` is what its
    /// only server contains, and `page` is its page.
    ///
    /// # Errors
    ///
    /// Fails if it does not start.
    ///
    /// # Panics
    ///
    /// If it is missing.
    pub fn start(sandbox: &Sandbox, port: u16, server: &str, page: &str) -> Result<Self> {
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|name| format!("{name}_temp_path {FOLDER}/{name};")).join("\n");
        // Without a master, no other process is left if this one is killed. It ends each connection after its page.
        let text = format!(
            "daemon off;\nmaster_process off;\npid {FOLDER}/pid;\nerror_log {FOLDER}/error.log;\n\
             events {{ worker_connections 4096; }}\n\
             http {{\naccess_log off;\nkeepalive_timeout 0;\n{temporary}\n\
             server {{ listen {VICTIM_IPV4}:{port}; listen 127.0.0.1:{port}; root {FOLDER};\n{server}\n}}\n}}\n"
        );
        let write = || {
            fs::create_dir_all(FOLDER)?;
            fs::write(in_folder("index.html"), page)?;
            fs::write(in_folder("nginx.conf"), &text)
        };
        sandbox.victim(write).context("cannot write the files of nginx")?;
        let mut process = sandbox.start(Self::command());
        let begin = Instant::now();
        while sandbox.victim(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port))).is_err() {
            if process.child.try_wait()?.is_some() || begin.elapsed() > PATIENCE {
                let log = sandbox.victim(|| fs::read_to_string(in_folder("error.log")));
                bail!("nginx does not listen: {}", log.unwrap_or_default());
            }
            thread::yield_now();
        }
        Ok(Self { _process: process })
    }

    /// Returns whether this machine has nginx.
    #[must_use]
    pub fn is_there() -> bool {
        unpacked::find("nginx", "nginx", "-v").is_some()
    }

    fn command() -> Command {
        let mut command = unpacked::program("nginx", "nginx", "-v");
        command.args(["-p", FOLDER, "-c", "nginx.conf", "-e", "error.log"]);
        command
    }
}

fn in_folder(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}
