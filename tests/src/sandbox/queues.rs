//! Which queue of a link, and which CPU, carries what.

use std::fs;

use rustix::mount::{MountFlags, mount};

use crate::{Namespace, PEER_LINK};

/// Has the sockets of all CPUs send through the peer's first queue. Floods use the queue of the CPU that sends them: if a socket
/// on another CPU used it too, that CPU would come to drain it, too slowly, and the wire would lose packets.
pub(crate) fn keep_sockets_apart(peer: &Namespace) {
    let status = fs::read_to_string("/proc/self/status").expect("cannot read this process's status");
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:\t")).expect("no Cpus_allowed");
    peer.run(|| set_queues(PEER_LINK, "tx-0", "xps_cpus", cpus));
}

/// Writes a setting of all queues whose names begin with `queues`, of a link of the calling thread's namespace.
///
/// # Panics
///
/// If the kernel refuses.
pub fn set_queues(link: &str, queues: &str, setting: &str, value: &str) {
    // The sysfs that is there shows the links of another namespace. This one is as private as all of /run.
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
