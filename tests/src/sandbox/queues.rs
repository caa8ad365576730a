//! Assignment of traffic to queues of a link and to CPUs.

use std::fs;

use rustix::mount::{MountFlags, mount};

use crate::{Namespace, PEER_LINK};

/// Makes sockets of all CPUs send through the peer's first queue. A flood uses the queue of its own CPU. If a socket on
/// another CPU shared that queue, that CPU would drain it too slowly, and the wire would lose packets.
pub(crate) fn keep_sockets_apart(peer: &Namespace) {
    let status = fs::read_to_string("/proc/self/status").expect("cannot read this process's status");
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:\t")).expect("no Cpus_allowed");
    peer.run(|| set_queues(PEER_LINK, "tx-0", "xps_cpus", cpus));
}

/// Writes a setting of all queues with the prefix `queues`, of a link in the calling thread's namespace.
///
/// # Panics
///
/// If the kernel refuses.
pub fn set_queues(link: &str, queues: &str, setting: &str, value: &str) {
    // The mounted sysfs shows links of another namespace. The new mount is private like all of /run.
    let folder = format!("/run/sys-{link}");
    if !fs::exists(&folder).expect("cannot look for a folder") {
        fs::create_dir_all(&folder).expect("cannot make a folder");
        mount("sysfs", &folder, "sysfs", MountFlags::empty(), None).expect("cannot mount sysfs");
    }
    for queue in fs::read_dir(format!("{folder}/class/net/{link}/queues")).expect("no such link").flatten() {
        if queue.file_name().to_string_lossy().starts_with(queues) {
            let path = queue.path().join(setting);
            fs::write(&path, value).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        }
    }
}
