//! The ports of the SSH server, by its configuration. A session of logind can be on any of them.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use super::session::SSH_PORT;

/// The configuration of OpenSSH, and the folder that distributions include in it.
const FILE: &str = "/etc/ssh/sshd_config";
const FOLDER: &str = "/etc/ssh/sshd_config.d";

/// The number of files that are read, and bytes of each.
const MOST_FILES: usize = 64;
const MOST_BYTES: u64 = 1 << 20;

/// Returns the ports, without duplicates. Without a configuration that names one, it is the usual port.
pub fn ports() -> Vec<u16> {
    let folder = fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|file| file.path());
    let files = [PathBuf::from(FILE)].into_iter().chain(folder.take(MOST_FILES));
    let mut ports: Vec<u16> = files.filter_map(|file| text(&file)).flat_map(|text| named(&text)).collect();
    ports.sort_unstable();
    ports.dedup();
    if ports.is_empty() { vec![SSH_PORT] } else { ports }
}

fn text(file: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the ports that a configuration names: `Port 2222`, or `ListenAddress ADDRESS:2222`.
fn named(text: &str) -> Vec<u16> {
    let port = |line: &str| {
        let mut words = line.split(|part: char| part.is_whitespace() || part == '=').filter(|word| !word.is_empty());
        let (keyword, value) = (words.next()?, words.next()?.trim_matches('"'));
        match keyword.to_ascii_lowercase().as_str() {
            "port" => value.parse().ok(),
            // An IPv6 address with a port is in brackets.
            "listenaddress" if value.contains("]:") || value.matches(':').count() == 1 => {
                value.rsplit(':').next()?.parse().ok()
            }
            _ => None,
        }
    };
    text.lines().filter_map(port).filter(|port| *port != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn ports_of_a_configuration() {
        let text = "# Port 22\nPort 2222\nport=2200\n  PORT \"24\"\nPort x\nPort 0\nPort 70000\nPermitRootLogin no\n\
                    ListenAddress 192.0.2.1:2022\nListenAddress [2001:db8::1]:2023\nListenAddress 2001:db8::2\n\
                    ListenAddress 0.0.0.0\nPort\n";
        assert_eq!(named(text), [2222, 2200, 24, 2022, 2023]);
        assert!(named("").is_empty());
    }
}
