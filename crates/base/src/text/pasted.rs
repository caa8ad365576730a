//! Commands in text, as an operator pastes them into a shell. Everything that is printed goes through here, so that a
//! command acts on the instance and in the network namespace that the text is about.

use std::{
    borrow::Cow,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf, absolute},
    sync::OnceLock,
};

use super::shell;

/// What the commands of this process are about.
static PLACE: OnceLock<Place> = OnceLock::new();

/// Commands that have no instance.
const WITHOUT_INSTANCE: [&str; 8] = ["check", "completions", "help", "manual", "replay", "rules", "serve", "usage"];

/// Programs that act on interfaces of their own network namespace.
const NETWORK: [&str; 4] = ["ethtool", "ip", "tc", "xdp-loader"];

/// What can stand before a command in one line of a shell.
const BEFORE: [&str; 6] = ["&& ", "|| ", "{ ", "; ", "| ", "sudo "];

/// An instance and a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The folder of the instance. None if a command without options finds it.
    pub pins: Option<PathBuf>,
    /// The network namespace, as `--netns` names it.
    pub netns: Option<String>,
}

/// From now on, commands in text name this place.
pub fn name(place: Place) {
    PLACE.get_or_init(|| place);
}

/// Returns whether commands in text are changed.
pub fn is_elsewhere() -> bool {
    PLACE.get().is_some_and(Place::is_elsewhere)
}

/// Returns a text whose commands in backticks name the place.
pub fn text(text: &str) -> Cow<'_, str> {
    PLACE.get().filter(|place| place.is_elsewhere()).map_or(Cow::Borrowed(text), |place| place.text(text).into())
}

/// Returns a command, which can be several in one line, that names the place.
pub fn line(command: &str) -> Cow<'_, str> {
    PLACE.get().filter(|place| place.is_elsewhere()).map_or(Cow::Borrowed(command), |place| place.line(command).into())
}

impl Place {
    fn is_elsewhere(&self) -> bool {
        *self != Self::default()
    }

    fn text(&self, text: &str) -> String {
        let parts = text.split('`').enumerate();
        let parts = parts.map(|(number, part)| if number % 2 == 1 { self.line(part) } else { part.to_owned() });
        parts.collect::<Vec<_>>().join("`")
    }

    fn line(&self, line: &str) -> String {
        let (mut named, mut rest) = (String::new(), line);
        // Each turn takes one word.
        while !rest.is_empty() {
            let is_first = named.is_empty() || BEFORE.iter().any(|before| named.ends_with(before));
            let (word, after) = rest.split_at(rest.find(' ').map_or(rest.len(), |end| end + 1));
            // `ip netns` acts on names, which are the same everywhere. NAME is an interface of another namespace.
            let is_elsewhere = after.starts_with("netns ") || after.split(' ').any(|word| word == "NAME");
            if is_first && NETWORK.contains(&word.trim_end()) && !is_elsewhere {
                named += &self.enter();
            }
            named += word;
            if is_first && word == "ratelimit " {
                named += &self.options(after);
            }
            rest = after;
        }
        named
    }

    /// Returns the options that a command lacks. `words` are those behind `ratelimit`.
    fn options(&self, words: &str) -> String {
        let end = ["&&", "||", ";", "|"].iter().filter_map(|sign| words.find(sign)).min();
        let words: Vec<&str> = words.get(..end.unwrap_or(words.len())).unwrap_or(words).split_whitespace().collect();
        let is_command =
            words.first().is_some_and(|word| word.starts_with(|c: char| c == '-' || c.is_ascii_lowercase()));
        let is_of_host = words.contains(&"--host");
        if !is_command || words.first().is_some_and(|word| WITHOUT_INSTANCE.contains(word)) && !is_of_host {
            return String::new();
        }
        let lacks = |option: &str| !words.iter().any(|word| word.split('=').next() == Some(option));
        let pins = self.pins.as_deref().filter(|_| lacks("--pins")).map(|pins| format!("--pins {} ", of_path(pins)));
        let netns = self.netns.as_deref().filter(|_| lacks("--netns"));
        let netns = netns.map(|name| format!("--netns {} ", quoted(name.as_bytes())));
        pins.into_iter().chain(netns).collect()
    }

    /// Returns what runs a program in the network namespace.
    fn enter(&self) -> String {
        let Some(name) = &self.netns else { return String::new() };
        let quoted = quoted(name.as_bytes());
        if name.contains('/') { format!("nsenter --net={quoted} ") } else { format!("ip netns exec {quoted} ") }
    }
}

/// Returns a path as a word of a shell in any folder.
fn of_path(path: &Path) -> String {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    quoted(path.as_os_str().as_bytes())
}

/// Returns a word of a shell that can stand in backticks.
fn quoted(word: &[u8]) -> String {
    let text = str::from_utf8(word).ok().filter(|text| !text.contains(|c: char| c.is_control() || c == '`'));
    match text {
        Some(text) => shell::quoted(text),
        None => format!("$'{}'", word.iter().map(|byte| format!(r"\x{byte:02x}")).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pins: &str, netns: &str) -> Place {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Place { pins: given(pins).map(PathBuf::from), netns: given(netns) }
    }

    #[test]
    fn each_command_in_backticks_names_the_instance_and_the_network_namespace() {
        let place = at("/bpf/own", "blue");
        for (text, named) in [
            ("run `ratelimit deny list`", "run `ratelimit --pins /bpf/own --netns blue deny list`"),
            ("`sudo ratelimit reload`.", "`sudo ratelimit --pins /bpf/own --netns blue reload`."),
            (
                "`ratelimit status`, `ratelimit limit list`",
                "`ratelimit --pins /bpf/own --netns blue status`, `ratelimit --pins /bpf/own --netns blue limit list`",
            ),
            ("`ratelimit --netns NAME detach eth0`", "`ratelimit --pins /bpf/own --netns NAME detach eth0`"),
            ("`ratelimit --pins /bpf/x detach eth0`", "`ratelimit --netns blue --pins /bpf/x detach eth0`"),
            (
                "`ratelimit detach a && ratelimit attach a --pins=/x`",
                "`ratelimit --pins /bpf/own --netns blue detach a && ratelimit --netns blue attach a --pins=/x`",
            ),
            ("`ratelimit check --host FILE`", "`ratelimit --pins /bpf/own --netns blue check --host FILE`"),
            ("`ip link set dev eth0 xdpdrv off`", "`ip netns exec blue ip link set dev eth0 xdpdrv off`"),
        ] {
            assert_eq!(place.text(text), named);
            // What is named already is not named twice.
            assert_eq!(place.text(named).matches("--netns").count(), named.matches("--netns").count(), "{named}");
        }
        for same in [
            "ratelimit status",
            "`ratelimit help set`",
            "`ip netns list`",
            "run there: `ethtool -K NAME gro on`",
            "`ratelimit serve`",
            "`limit list`",
            "`ratelimit`",
            "`ratelimit …`",
            "",
        ] {
            assert_eq!(place.text(same), same);
        }
    }

    #[test]
    fn a_line_of_commands_names_it_in_each() {
        let place = at("/bpf/own", "");
        let fix = "ratelimit detach eth0 && { ratelimit attach eth0 || ratelimit attach eth0 --mode generic; }";
        assert_eq!(place.line(fix), fix.replace("ratelimit", "ratelimit --pins /bpf/own"));
        assert_eq!(place.line("ethtool -K eth0 gro off"), "ethtool -K eth0 gro off");
        assert_eq!(at("", "/run/x").line("ethtool -K eth0 gro off"), "nsenter --net=/run/x ethtool -K eth0 gro off");
        assert_eq!(place.line("systemctl restart ratelimit"), "systemctl restart ratelimit");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, text) in [
            ("/a/b-1", "/a/b-1"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$x;`", r"$'\x24\x78\x3b\x60'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word.as_bytes()), text);
        }
        assert_eq!(quoted(b"a\xff"), r"$'\x61\xff'");
    }
}
