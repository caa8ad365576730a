//! Sets of ipset, as `ipset save` writes them.

use std::net::IpAddr;

use anyhow::{Context as _, Result, bail, ensure};
use ratelimit_base::text::{excerpt::excerpt, feed::SetEntry};

use super::program::{Entries, output};

/// Types whose entries are addresses, prefixes or ranges.
const TYPES: [&str; 3] = ["hash:ip", "hash:net", "bitmap:ip"];

pub(super) fn read(set: &str) -> Result<Entries> {
    let text = output("ipset", &["save", set], "ipset")?;
    entries(set, &String::from_utf8_lossy(&text))
}

fn entries(set: &str, saved: &str) -> Result<Entries> {
    let mut entries = Entries { text: String::new(), timed: 0 };
    let (mut kind, mut mask) = (None, None);
    for line in whole_lines(saved) {
        if let ["create", _, is, options @ ..] = line.split_whitespace().collect::<Vec<_>>().as_slice() {
            kind = Some((*is).to_owned());
            mask = mask_of(set, options)?;
        } else if let Some(SetEntry { entry, ends, wrong, .. }) = SetEntry::of(&line) {
            // Such an entry is an exception from wider ones.
            ensure!(wrong.is_none(), "{set}: {entry} has `{}`, which a list cannot have", wrong.unwrap_or_default());
            entries.timed += usize::from(ends);
            entries.text += &entry;
            if let Some(bits) = mask {
                entries.text += &format!("/{bits}");
            }
            entries.text.push('\n');
        } else {
            ensure!(line.trim().is_empty(), "ipset wrote what cannot be read: {}", excerpt(&line));
        }
    }
    let kind = kind.with_context(|| format!("ipset has not said what {set} is"))?;
    if !TYPES.contains(&kind.as_str()) {
        bail!("{set} has the type {kind}: a list takes sets of the types {}", TYPES.join(", "));
    }
    Ok(entries)
}

/// Returns how many bits of each address a set compares. None are all of them.
fn mask_of(set: &str, options: &[&str]) -> Result<Option<u32>> {
    let value = |name: &str| options.windows(2).find(|option| option[0] == name).map(|option| option[1]);
    if let Some(bits) = value("netmask") {
        return Ok(Some(bits.parse().with_context(|| format!("{set} has the netmask {bits}"))?));
    }
    let Some(mask) = value("bitmask") else { return Ok(None) };
    let (bits, all) = match mask.parse().with_context(|| format!("{set} has the bitmask {mask}"))? {
        IpAddr::V4(v4) => (v4.to_bits().leading_ones(), v4.to_bits().count_ones()),
        IpAddr::V6(v6) => (v6.to_bits().leading_ones(), v6.to_bits().count_ones()),
    };
    ensure!(bits == all, "{set} has the bitmask {mask}, which is that of no prefix: a list cannot have it");
    Ok(Some(bits))
}

/// Returns the lines of a text. A comment in quotes can have ends of lines.
fn whole_lines(text: &str) -> impl Iterator<Item = String> {
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        let mut line = lines.next()?.to_owned();
        while !line.matches('"').count().is_multiple_of(2) {
            line.push(' ');
            line.push_str(lines.next()?);
        }
        Some(line)
    })
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
        assert!(refused("create bad hash:net\nadd bad\n").contains("cannot be read: add bad"));
    }

    #[test]
    fn masks_of_a_set_belong_to_its_entries() {
        let text = |saved: &str| entries("bad", saved).map(|entries| entries.text).map_err(|error| error.to_string());
        for (mask, expected) in [("netmask 24", "/24"), ("bitmask 255.255.240.0", "/20"), ("", "")] {
            let saved = format!("create bad hash:ip family inet hashsize 1024 {mask} initval 0x1\nadd bad 192.0.0.0\n");
            assert_eq!(text(&saved), Ok(format!("192.0.0.0{expected}\n")));
        }
        let six = "create bad hash:ip family inet6 netmask 56\nadd bad 2001:db8::\n";
        assert_eq!(text(six), Ok("2001:db8::/56\n".to_owned()));
        let why = text("create bad hash:ip bitmask 255.255.0.255\nadd bad 192.0.0.7\n").unwrap_err();
        assert!(why.contains("bitmask 255.255.0.255, which is that of no prefix"), "{why}");
    }

    #[test]
    fn words_of_comments_are_no_options_and_no_entries() {
        let saved = "create bad hash:net comment timeout 0 counters\n\
                     add bad 192.0.2.0/24 timeout 0 packets 0 bytes 0 comment \"has nomatch timeout 5\"\n\
                     add bad 198.51.100.1 timeout 0 comment \"two\nadd bad 10.0.0.0/8\nlines\"\n";
        let expected = Entries { text: "192.0.2.0/24\n198.51.100.1\n".to_owned(), timed: 0 };
        assert_eq!(entries("bad", saved).unwrap(), expected);
    }
}
