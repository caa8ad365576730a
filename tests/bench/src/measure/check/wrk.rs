//! The load generator `wrk`, from `cargo xtask bench` or PATH.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use ratelimit_tests::{Folder, Sandbox};

use super::servers::local;

const CONNECTIONS: &str = "32";

/// The load generator.
pub(super) struct Wrk<'a> {
    sandbox: &'a Sandbox,
    folder: Folder,
}

/// What it has measured.
pub(super) struct Load {
    pub(super) requests: f64,
    pub(super) seconds: f64,
    /// The 99th percentile in seconds.
    pub(super) slowest_of_a_hundred: f64,
}

impl<'a> Wrk<'a> {
    /// Finds it.
    ///
    /// # Errors
    ///
    /// Fails if it is missing.
    pub(super) fn find(sandbox: &'a Sandbox) -> Result<Self> {
        command().arg("--version").output().context("wrk is missing")?;
        Ok(Self { sandbox, folder: Folder::new() })
    }

    /// Calls a server by HTTP on the CPU of the calling thread. All answers must be refusals, or none. Without that, they
    /// are not looked at.
    ///
    /// # Errors
    ///
    /// Fails if calls fail, or for another answer.
    pub(super) fn load(&self, port: u16, operation: &str, seconds: u64, is_refused: Option<bool>) -> Result<Load> {
        let script = self.folder.add("check.lua", include_str!("check.lua"));
        let mut command = command();
        command.args(["--threads", "1", "--connections", CONNECTIONS, "--script"]).arg(script);
        command.args(["--duration", &format!("{seconds}s"), &format!("http://{}", local(port)), "--", operation]);
        let output = self.sandbox.output(&mut command);
        let text = String::from_utf8_lossy(&output.stdout);
        let fields = text.lines().find_map(|line| line.strip_prefix("done "));
        let fields = fields.with_context(|| format!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
        let fields = fields.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let [requests, microseconds, slowest, refused, failed] = fields[..] else {
            anyhow::bail!("wrk: {text}");
        };
        ensure!(failed < 1.0 && requests >= 1.0, "{failed} of {requests} calls fail");
        if let Some(is_refused) = is_refused {
            let expected = if is_refused { requests } else { 0.0 };
            ensure!((refused - expected).abs() < 1.0, "{refused} of {requests} calls are refused");
        }
        Ok(Load { requests, seconds: microseconds / 1e6, slowest_of_a_hundred: slowest / 1e6 })
    }
}

fn command() -> Command {
    let target = env::current_exe().ok().and_then(|bench| Some(bench.parent()?.parent()?.join("wrk/usr")));
    let unpacked = target.filter(|usr| usr.join("bin/wrk").is_file());
    let path = unpacked.as_ref().map_or_else(|| PathBuf::from("wrk"), |usr| usr.join("bin/wrk"));
    let triple = format!("lib/{}-linux-gnu", env::consts::ARCH);
    let libraries = unpacked.map_or_else(PathBuf::new, |usr| usr.join(Path::new(&triple)));
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", libraries);
    command
}
