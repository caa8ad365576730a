//! Configuration files in the documents, and the one in `dist`.

use std::{fs, os::unix::fs::PermissionsExt as _};

use ratelimit_tests::{Authority, Folder, Ratelimit, Sandbox};

use crate::{assert_none, pages, root};

/// Language of code blocks that are a whole configuration file.
const LANGUAGE: &str = "toml";

/// A file that the documents name, and that a machine may lack.
const PASSWORD: &str = "/etc/ratelimit/password";

/// Returns the file in the ConfigMap for Kubernetes.
fn of_kubernetes() -> (String, String) {
    let name = "dist/kubernetes/daemonset.yaml";
    let text = fs::read_to_string(root().join(name)).unwrap();
    let (_, rest) = text.split_once("  ratelimit.toml: |\n").unwrap();
    let lines = rest.lines().take_while(|line| *line != "---");
    (name.to_owned(), lines.map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect())
}

/// Returns the template for Ansible with values.
fn of_ansible() -> (String, String) {
    let name = "dist/ansible/ratelimit.toml.j2";
    let mut text = fs::read_to_string(root().join(name)).unwrap();
    for (placeholder, value) in [
        ("{{ ansible_managed }}", "Ansible managed"),
        ("{{ ratelimit_interfaces | to_json }}", "[\"eth0\"]"),
        ("{% if ratelimit_allow %}\n", ""),
        ("{% endif %}\n", ""),
        ("{% for interface in ratelimit_interfaces %}\n", ""),
        ("{{ interface | to_json }}", "\"eth0\""),
        ("{{ ratelimit_mode }}", "auto"),
        ("{% endfor %}\n", ""),
        ("{{ ratelimit_allow | to_json }}", "[\"192.0.2.0/24\"]"),
        ("{{ ratelimit_shadow | bool | to_json }}", "true"),
        ("{{ ratelimit_packets }}", "1000/s"),
    ] {
        assert!(text.contains(placeholder), "{placeholder}");
        text = text.replace(placeholder, value);
    }
    assert!(!text.contains("{{") && !text.contains("{%"), "{text}");
    (name.to_owned(), text)
}

#[test]
fn every_configuration_file_in_the_documents_is_good() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let mut files =
        vec![("dist/ratelimit.toml:1".to_owned(), fs::read_to_string(root().join("dist/ratelimit.toml")).unwrap())];
    for page in pages() {
        let blocks = page.blocks.iter().filter(|block| block.language == LANGUAGE);
        files.extend(blocks.map(|block| (format!("{}:{}", page.name, block.line), block.code.clone())));
    }
    files.extend([of_kubernetes(), of_ansible()]);
    assert!(files.len() > 3, "no document shows a configuration file");
    let password = folder.file().with_file_name("password");
    fs::write(&password, "a-password-of-the-documents").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    let signed = Authority::new("authority").sign(&["localhost"]);
    let crowdsec = "a-key-of-the-documents".to_owned();
    let named_files = [("check.pem", &signed.certificate), ("check.key", &signed.key), ("crowdsec.key", &crowdsec)]
        .map(|(name, text)| (format!("/etc/ratelimit/{name}"), folder.add(name, text).display().to_string()));
    let mut findings = Vec::new();
    for (place, text) in files {
        let text = text.replace(PASSWORD, &password.display().to_string());
        folder.write(&named_files.iter().fold(text, |text, (named, made)| text.replace(named, made)));
        let output = ratelimit.run(&format!("check {}", folder.file().display()));
        if output.status != 0 {
            findings.push(format!("{place}: {}{}", output.stdout, output.stderr));
        }
    }
    assert_none(&findings);
}
