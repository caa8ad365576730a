//! Which queue of the link carries what, so that sending a flood costs nobody but its sender.

use std::{fs, thread};

use anyhow::{Context as _, Result};
use ratelimit_tests::{PEER_LINK, Sandbox, VICTIM_LINK};
use rustix::mount::{MountFlags, mount};

/// Keeps web traffic and floods apart as far as the victim's driver, and has the victim's first CPU take everything from there,
/// as with a network card that has one interrupt. On one CPU there is nothing to choose.
pub(crate) fn lay(sandbox: &Sandbox) -> Result<()> {
    if thread::available_parallelism()?.get() == 1 {
        return Ok(());
    }
    // Floods use the queue of the CPU that sends them, the last. If the web client used it too, another CPU would come to drain
    // that queue, too slowly, and the wire would lose packets.
    let status = fs::read_to_string("/proc/self/status")?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:\t")).context("no Cpus_allowed")?;
    sandbox.peer(|| set(PEER_LINK, "tx-0", "xps_cpus", cpus))?;
    sandbox.victim(|| set(VICTIM_LINK, "rx-", "rps_cpus", "1"))
}

/// Writes a setting of all queues whose names begin so, of a link of the calling thread's namespace.
fn set(link: &str, queues: &str, setting: &str, value: &str) -> Result<()> {
    // The sysfs that is there shows the links of another namespace. This one is as private as all of /run.
    let folder = format!("/run/sys-{link}");
    fs::create_dir(&folder)?;
    mount("sysfs", &folder, "sysfs", MountFlags::empty(), None)?;
    for queue in fs::read_dir(format!("{folder}/class/net/{link}/queues"))? {
        let queue = queue?;
        if queue.file_name().to_string_lossy().starts_with(queues) {
            let path = queue.path().join(setting);
            fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}
