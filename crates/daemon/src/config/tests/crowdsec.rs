//! The table `[crowdsec]`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use super::*;
use crate::crowdsec::Question;

/// Returns a file with this text that only its owner can read.
fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("ratelimit-crowdsec-{name}-{}", std::process::id()));
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn table(key: &Path, lines: &str) -> String {
    format!("interfaces = []\n[crowdsec]\nkey-file = \"{}\"\n{lines}\n", key.display())
}

#[test]
fn a_table_has_a_key_and_asks_this_host_by_default() {
    let key = file("key", "a secret".replace(' ', "-").as_str());
    let least = parse(&table(&key, "")).unwrap().crowdsec.unwrap();
    assert_eq!(
        (least.key.text(), least.every, least.url().as_str()),
        ("a-secret", Duration::from_secs(10), "http://127.0.0.1:8080")
    );
    let address = |url: &str, question| {
        parse(&table(&key, &format!("url = \"{url}\"")))
            .unwrap()
            .crowdsec
            .unwrap()
            .question(question)
            .as_str()
            .to_owned()
    };
    let expected = "https://api.example:8443/crowdsec/v1/decisions/stream?startup=true&dedup=false";
    assert_eq!(address("https://api.example:8443/crowdsec/", Question::All), expected);
    let expected = "http://[::1]:8080/v1/decisions/stream?startup=false&dedup=false";
    assert_eq!(address("http://[::1]:8080", Question::Changes), expected);
    // No message shows the key.
    assert!(!format!("{least:?}").contains("secret"));
    assert_eq!(parse("interfaces = []").unwrap().crowdsec, None);
    // A changed key is another table.
    fs::write(&key, "another-key").unwrap();
    assert_ne!(parse(&table(&key, "")).unwrap().crowdsec.unwrap(), least);
    fs::remove_file(key).unwrap();
}

#[test]
fn the_table_of_the_sample_file_is_good() {
    let sample = include_str!("../../../../../dist/ratelimit.toml");
    let (_, rest) = sample.split_once("# [crowdsec]").unwrap();
    let (lines, _) = rest.split_once("\n\n").unwrap();
    let text = format!("[crowdsec]{}", lines.replace("\n# ", "\n"));
    let key = file("sample", "key");
    let text = text.replace("/etc/ratelimit/crowdsec.key", &key.display().to_string());
    // The file does not exist, and is for https only.
    let found = problems(&text);
    assert!(found.len() == 2 && found.iter().all(|problem| problem.starts_with("5:11: ")), "{found:?}");
    assert!(parse(&text.replace("ca-file", "# ca-file")).unwrap().crowdsec.is_some());
    fs::remove_file(key).unwrap();
}

#[test]
fn a_key_never_leaves_the_host_without_encryption_and_a_problem_has_its_place() {
    let key = file("problem", "key");
    for (lines, expected) in [
        ("url = \"http://192.0.2.1:8080\"", "4:7: \"http://192.0.2.1:8080\": the key would be sent without encryption"),
        ("url = \"ftp://127.0.0.1\"", "4:7: \"ftp://127.0.0.1\": expected an address such as http://127.0.0.1:8080"),
        ("url = \"https://u:p@api.example\"", "4:7: "),
        ("url = \"https://api.example/?x=y\"", "4:7: "),
        ("every = \"500ms\"", "4:9: "),
        ("every = \"2h\"", "4:9: \"2h\": expected a time from 1s to 1h"),
        ("ca-file = \"/nowhere\"\nurl = \"https://api.example\"", "4:11: \"/nowhere\": cannot be read"),
        ("key = \"x\"", "4:1: "),
    ] {
        let found = problems(&table(&key, lines));
        assert!(matches!(&found[..], [problem] if problem.starts_with(expected)), "{lines}: {found:?}");
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let [problem] = &problems(&table(&key, ""))[..] else { panic!("no problem") };
    assert!(problem.contains("every user of this machine has access to it"), "{problem}");
    fs::remove_file(key).unwrap();
    assert!(problems("interfaces = []\n[crowdsec]\n")[0].contains("key-file is missing"));
}
