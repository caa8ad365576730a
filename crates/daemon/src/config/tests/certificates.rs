//! The keys of `[fleet]` that name certificates.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use rcgen::{CertificateParams, KeyPair};

use super::*;

/// A folder with certificates, removed on drop.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ratelimit-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let files = Self(folder);
        for name in ["one", "two"] {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::default().self_signed(&key).unwrap();
            files.write(&format!("{name}.pem"), &certificate.pem(), 0o644);
            files.write(&format!("{name}.key"), &key.serialize_pem(), 0o600);
        }
        files
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns a file with these keys of `[fleet]`, whose values are names of files in this folder.
    fn text(&self, engine: &str, keys: &[(&str, &str)]) -> String {
        let lines: Vec<_> =
            keys.iter().map(|(key, name)| format!("{key} = \"{}\"", self.0.join(name).display())).collect();
        format!("interfaces = []\n[fleet]\nengine = {engine}\n{}\n", lines.join("\n"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

const ENGINE: &str = "\"rediss://10.0.0.5\"";

#[test]
fn another_certificate_is_another_engine() {
    let files = Files::new("certificates");
    let engine = |keys: &[(&str, &str)]| parse(&files.text(ENGINE, keys)).unwrap().fleet.unwrap().engine;
    let all = |name: &str| {
        let [certificate, key] = ["pem", "key"].map(|kind| format!("{name}.{kind}"));
        engine(&[("ca-file", &certificate), ("certificate-file", &certificate), ("key-file", &key)])
    };
    let [one, two] = ["one", "two"].map(all);
    assert!(matches!(&one, ratelimit_fleet::way::Place::Server(address) if address.is_encrypted()));
    assert_eq!(one, all("one"));
    assert_ne!(one, two);
    assert_ne!(engine(&[("ca-file", "one.pem")]), engine(&[]));
    // A reload reads the files again.
    fs::copy(files.0.join("two.pem"), files.0.join("one.pem")).unwrap();
    fs::copy(files.0.join("two.key"), files.0.join("one.key")).unwrap();
    assert_eq!(all("one"), two);
}

#[test]
fn a_certificate_that_makes_no_sense_is_reported_with_its_place() {
    let files = Files::new("bad-certificates");
    files.write("text", "no certificate\n", 0o600);
    files.write("empty", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0o600);
    files.write("cut", "-----BEGIN CERTIFICATE-----\nAAAA\n", 0o600);
    files.write("no.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o600);
    files.write("open.key", &fs::read_to_string(files.0.join("one.key")).unwrap(), 0o644);
    files.write("large", &"x".repeat((1 << 20) + 1), 0o600);
    let own = |certificate, key| [("certificate-file", certificate), ("key-file", key)];
    for (keys, expected) in [
        (&[("ca-file", "text")][..], "4:11: FILE: expected a certificate in PEM, which begins with -----BEGIN CERT"),
        (&[("ca-file", "one.key")], "4:11: FILE: expected a certificate in PEM, which begins with -----BEGIN CERT"),
        (&[("ca-file", "empty")], "4:11: FILE: certificate 1 of this file cannot be read: copy the file again"),
        (&[("ca-file", "cut")], "4:11: FILE: certificate 1 of this file cannot be read: copy the file again"),
        (&[("ca-file", "missing")], "4:11: FILE: cannot be read: No such file or directory"),
        (&[("ca-file", "")], "4:11: FILE: is not a regular file"),
        (&[("ca-file", "large")], "4:11: FILE: is larger than 1048576 bytes"),
        (&[("certificate-file", "one.pem")], "4:20: FILE: a certificate needs its key: add key-file"),
        (&[("key-file", "one.key")], "4:12: FILE: a key needs its certificate: add certificate-file"),
        (&own("text", "one.key"), "4:20: FILE: expected a certificate in PEM"),
        (&own("empty", "one.key"), "4:20: FILE: certificate 1 of this file cannot be read: copy the file again"),
        (&own("one.pem", "one.pem"), "5:12: FILE: every user of this machine has access to it: run `chmod o= "),
        (&own("one.pem", "open.key"), "5:12: FILE: every user of this machine has access to it: run `chmod o= "),
        (&own("one.pem", "text"), "5:12: FILE: expected a key in PEM without a password"),
        (&own("one.pem", "no.key"), "5:12: FILE: the key cannot be read, or is of another kind"),
        (
            &own("one.pem", "two.key"),
            "5:12: FILE: the key belongs to another certificate than that of certificate-file",
        ),
        (&own("one.pem", "missing"), "5:12: FILE: cannot be read: No such file or directory"),
    ] {
        let [problem] = &problems(&files.text(ENGINE, keys))[..] else { panic!("{keys:?}") };
        let (_, name) = keys[usize::from(expected.starts_with('5'))];
        let path = format!("\"{}\"", files.0.join(name).display());
        let problem = problem.replacen(&path, "FILE", 1);
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn encryption_cannot_be_weakened() {
    let files = Files::new("weak-certificates");
    let ca = &[("ca-file", "one.pem")][..];
    for (engine, keys, expected) in [
        ("\"redis://10.0.0.5\"", ca, "4:11: FILE: the connection is not encrypted: write rediss:// in engine"),
        ("\"rediss://10.0.0.5#insecure\"", ca, "certificates are always checked: remove #insecure"),
        ("\"rediss://10.0.0.5/#insecure\"", &[], "certificates are always checked: remove #insecure"),
        ("\"rediss://10.0.0.5#other\"", &[], "3:10: "),
        ("[\"rediss://10.0.0.5\", \"redis://10.0.0.6\"]", &[], "either all addresses or none have rediss://"),
        ("[\"redis://10.0.0.5\", \"rediss://10.0.0.6\"]", ca, "either all addresses or none have rediss://"),
    ] {
        let [problem] = &problems(&files.text(engine, keys))[..] else { panic!("{engine}") };
        let path = format!("\"{}\"", files.0.join("one.pem").display());
        let problem = problem.replacen(&path, "FILE", 1);
        assert!(problem.contains(expected), "{problem}");
    }
}
