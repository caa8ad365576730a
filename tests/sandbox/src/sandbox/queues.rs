//! Assignment of traffic to queues of a link and to CPUs.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

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
    for queue in fs::read_dir(settings(link).join("queues")).expect("no such link").flatten() {
        if queue.file_name().to_string_lossy().starts_with(queues) {
            write(&queue.path().join(setting), value);
        }
    }
}

/// Has a timer of the kernel receive the packets of a link in the calling thread's namespace, as often as an interrupt of
/// a network card would. From then on, the CPU that sends the next packet to the link receives all packets. Otherwise,
/// each CPU receives what it sends.
///
/// # Panics
///
/// If the kernel refuses.
pub fn receive_by_timer(link: &str, period: Duration) {
    write(&settings(link).join("gro_flush_timeout"), &period.as_nanos().to_string());
    // The timer would stop after so many times without a packet.
    write(&settings(link).join("napi_defer_hard_irqs"), &i32::MAX.to_string());
}

/// Returns the folder with the settings of a link in the calling thread's namespace.
fn settings(link: &str) -> PathBuf {
    // The mounted sysfs shows links of another namespace. The new mount is private like all of /run.
    let folder = format!("/run/sys-{link}");
    if !fs::exists(&folder).expect("cannot look for a folder") {
        fs::create_dir_all(&folder).expect("cannot make a folder");
        mount("sysfs", &folder, "sysfs", MountFlags::empty(), None).expect("cannot mount sysfs");
    }
    Path::new(&folder).join("class/net").join(link)
}

fn write(path: &Path, value: &str) {
    fs::write(path, value).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
