//! Sets of ipset, as `ipset save` writes them.

use anyhow::{Context as _, Result, bail, ensure};

use super::program::{Entries, output};

/// Types whose entries are addresses, prefixes or ranges.
const TYPES: [&str; 3] = ["hash:ip", "hash:net", "bitmap:ip"];

pub(super) fn read(set: &str) -> Result<Entries> {
    let text = output("ipset", &["save", set], "ipset")?;
    entries(set, &String::from_utf8_lossy(&text))
}

fn entries(set: &str, saved: &str) -> Result<Entries> {
    let mut entries = Entries { text: String::new(), timed: 0 };
    let mut kind = None;
    for line in saved.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["create", _, is, ..] => kind = Some((*is).to_owned()),
            ["add", _, entry, options @ ..] => {
                // Such an entry is an exception from wider ones.
                ensure!(!options.contains(&"nomatch"), "{set}: {entry} has `nomatch`, which a list cannot have");
                entries.timed +=
                    usize::from(options.windows(2).any(|option| option[0] == "timeout" && option[1] != "0"));
                entries.text += entry;
                entries.text.push('\n');
            }
            _ => {}
        }
    }
    let kind = kind.with_context(|| format!("ipset has not said what {set} is"))?;
    if !TYPES.contains(&kind.as_str()) {
        bail!("{set} has the type {kind}: a list takes sets of the types {}", TYPES.join(", "));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_and_other_types_refused() {
        let saved = "create bad hash:net family inet hashsize 1024 maxelem 65536 timeout 0\n\
                     add bad 10.0.0.0/8 timeout 0\nadd bad 172.16.0.0/12 timeout 0\nadd bad 192.0.2.1 timeout 59\n";
        assert_eq!(
            entries("bad", saved).unwrap(),
            Entries { text: "10.0.0.0/8\n172.16.0.0/12\n192.0.2.1\n".to_owned(), timed: 1 }
        );
        let refused = |saved: &str| entries("bad", saved).unwrap_err().to_string();
        assert!(refused("create bad hash:ip,port family inet\n").contains("bad has the type hash:ip,port"));
        assert!(refused("create bad hash:net\nadd bad 10.0.0.1 nomatch\n").contains("10.0.0.1 has `nomatch`"));
        assert!(refused("").contains("has not said"));
    }
}
