//! The name servers that this host asks, as files of the system name them.

use std::{fs::File, io::Read as _, net::IpAddr, path::PathBuf};

use crate::sys::namespace;

/// The file of the resolver (resolv.conf(5)).
const RESOLVER: &str = "/etc/resolv.conf";
/// The same with the servers that systemd-resolved asks, which is a server itself.
const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

/// The most files that name them.
pub const FILES: usize = 3;

/// The most bytes of a file that are read.
const MOST_BYTES: u64 = 1 << 16;
/// The most servers of a file. The resolver of the C library asks three.
const MOST: usize = 16;

/// Returns the files that name them in this network namespace. Some may be missing.
#[must_use]
pub fn files() -> Vec<PathBuf> {
    let of_namespaces = Some(PathBuf::from("/etc/netns")).filter(|folder| folder.exists());
    let of_namespace = of_namespaces.and_then(|folder| Some(folder.join(namespace::name()?).join("resolv.conf")));
    match of_namespace.filter(|file| file.exists()) {
        // `ip netns exec` would put it in place of the others.
        Some(file) => vec![file],
        None => [RESOLVER, RESOLVED].map(PathBuf::from).to_vec(),
    }
}

/// Returns the name servers. A file that cannot be read names none.
#[must_use]
pub fn all() -> Vec<IpAddr> {
    let read = |path: PathBuf| {
        let mut text = Vec::new();
        File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text)).unwrap_or_default();
        of_text(&String::from_utf8_lossy(&text))
    };
    files().into_iter().flat_map(read).collect()
}

fn of_text(text: &str) -> Vec<IpAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = (words.next()? == "nameserver").then(|| words.next())??;
        // A link-local address has the name of its interface.
        let address = address.split_once('%').map_or(address, |(address, _)| address);
        address.parse().ok().map(|address: IpAddr| address.to_canonical())
    });
    servers.take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_servers_are_read_and_no_others() {
        let text = "# nameserver 192.0.2.9\nsearch example.org\nnameserver 192.0.2.1\n\tnameserver\t2001:db8::1 ; x\n\
                    nameserver fe80::1%eth0\nnameserver\nnameserver localhost\noptions edns0\nnameserver ::ffff:192.0.2.2";
        let servers: Vec<_> = of_text(text).iter().map(IpAddr::to_string).collect();
        assert_eq!(servers, ["192.0.2.1", "2001:db8::1", "fe80::1", "192.0.2.2"]);
        assert_eq!(of_text(&"nameserver 192.0.2.1\n".repeat(100)).len(), MOST);
    }
}
