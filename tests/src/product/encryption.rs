//! The files and options of servers that encrypt connections.

use super::authority::Signed;
use crate::Folder;

/// Files of a certificate, its key and an authority, with the options that name them. Removed on drop.
#[derive(Debug)]
pub struct Encryption {
    files: [String; 3],
    _folder: Folder,
}

impl Encryption {
    /// Writes the certificate, and the authority whose certificates are trusted.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    #[must_use]
    pub fn new(signed: &Signed, authority: &str) -> Self {
        let folder = Folder::new();
        let files = [("certificate", &*signed.certificate), ("key", &signed.key), ("authority", authority)];
        let files = files.map(|(name, text)| folder.add(name, text).display().to_string());
        Self { files, _folder: folder }
    }

    /// Returns the options of a server at this port, which asks each client for a certificate, and more options.
    #[must_use]
    pub fn server(&self, port: u16, more: &[&str]) -> Vec<String> {
        let port = port.to_string();
        let ports = ["--port", "0", "--tls-port", &port];
        let options = self.named(["--tls-cert-file", "--tls-key-file", "--tls-ca-cert-file"]);
        let given = ports.iter().chain(more).map(ToString::to_string);
        options.into_iter().chain(given).collect()
    }

    /// Returns the options of `redis-cli`.
    #[must_use]
    pub fn client(&self) -> Vec<String> {
        let mut options = self.named(["--cert", "--key", "--cacert"]);
        options.push("--tls".to_owned());
        options
    }

    /// Returns the keys of `[fleet]`.
    #[must_use]
    pub fn keys(&self) -> String {
        let [.., authority] = &self.files;
        format!("ca-file = \"{authority}\"\n{}", self.keys_of_host())
    }

    /// Returns those of the host's own certificate.
    #[must_use]
    pub fn keys_of_host(&self) -> String {
        let [certificate, key, _] = &self.files;
        format!("certificate-file = \"{certificate}\"\nkey-file = \"{key}\"\n")
    }

    fn named(&self, options: [&str; 3]) -> Vec<String> {
        options.into_iter().zip(&self.files).flat_map(|(option, file)| [option.to_owned(), file.clone()]).collect()
    }
}
