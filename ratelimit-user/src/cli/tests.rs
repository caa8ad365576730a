//! Tests of the command line as a whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    process::{self, Stdio},
};

use clap::ValueEnum as _;

use super::*;

/// Returns the help of a command and of all commands below it.
fn help(command: &mut clap::Command) -> String {
    let text = format!("{}{}", command.render_help(), command.render_long_help());
    command.get_subcommands_mut().map(help).fold(text, |text, more| text + &more)
}

#[test]
fn options_of_earlier_versions_are_accepted_and_in_no_help() {
    let help = help(&mut Arguments::command());
    for (old, new, value) in [("--strangers", "--unknown", "50/s"), ("--max-logs", "--max-sliding-logs", "50")] {
        for option in [old, new] {
            assert!(accepts(["attach", "eth0", option, value]).is_ok(), "{option}");
        }
        assert!(help.contains(&format!("{new} <")) && !help.contains(old.trim_start_matches('-')), "{old}");
    }
}

#[test]
fn the_old_and_the_new_option_together_are_refused() {
    for (old, new, shown) in [
        ("--strangers=5/s", "--unknown=5/s", "--unknown <RATE|auto|off>"),
        ("--max-logs=5", "--max-sliding-logs=5", "--max-sliding-logs <N>"),
    ] {
        let error = accepts(["attach", "eth0", old, new]).unwrap_err();
        assert_eq!(
            parse_error::one_line(&error, Arguments::command(), iter::empty()).split(" (").next(),
            Some(format!("the argument '{shown}' cannot be used multiple times").as_str())
        );
    }
}

#[test]
fn a_request_for_help_is_accepted_and_nonsense_is_not() {
    for words in [&["help", "limit", "set"][..], &["--version"], &["limit", "set", "default", "--packets", "5/s"]] {
        assert!(accepts(words.iter().copied()).is_ok(), "{words:?}");
    }
    for words in [&["limit"][..], &["sprinkle"], &["limit", "set", "default", "--packets", "5"]] {
        assert!(accepts(words.iter().copied()).is_err(), "{words:?}");
    }
}

#[test]
fn the_version_names_the_commit_or_says_why_not() {
    let error = Arguments::try_parse_from(["ratelimit", "--version"]).unwrap_err();
    let text = error.to_string();
    let rest = text.strip_prefix(concat!("ratelimit ", env!("CARGO_PKG_VERSION"), " (")).unwrap();
    let rest = rest.strip_suffix(")\n").unwrap();
    assert!(rest.starts_with("commit ") || ["debug build", "unknown commit"].contains(&rest), "{text}");
}

/// Returns the full names of a command and of all visible commands below it.
fn names(command: &clap::Command, above: &str) -> Vec<String> {
    let name = format!("{above}{}", command.get_name());
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let below: Vec<_> = below.flat_map(|below| names(below, &format!("{name}-"))).collect();
    [vec![name], below].concat()
}

#[test]
fn every_command_has_a_manual_page_with_its_options() {
    let pages: BTreeMap<_, _> = manual::manual(Arguments::command()).unwrap().into_iter().collect();
    let expected: Vec<_> = names(&Arguments::command(), "").iter().map(|name| format!("{name}.8")).collect();
    assert!(expected.len() > 40, "{expected:?}");
    assert_eq!(pages.keys().collect::<BTreeSet<_>>(), expected.iter().collect());
    let text = |name: &str| String::from_utf8(pages[name].clone()).unwrap();
    let synopsis = |name: &str| {
        let text = text(name);
        text.split_once(".SH SYNOPSIS\n").unwrap().1.split_once(".SH").unwrap().0.replace(['\\', '\n'], "")
    };
    assert_eq!(synopsis("ratelimit-limit-set.8"), "fBratelimit limit setfR [OPTIONS] <CIDR|default|->...");
    assert_eq!(synopsis("ratelimit-limit.8"), "fBratelimit limitfR [OPTIONS] <COMMAND>");
    for (page, part) in [
        ("ratelimit.8", "ratelimit\\-limit(8)"),
        ("ratelimit-limit.8", "ratelimit\\-limit\\-set(8)"),
        ("ratelimit-limit-set.8", "\\-\\-packets"),
        ("ratelimit-attach.8", "\\-\\-confirm"),
    ] {
        assert!(text(page).contains(part), "{page} lacks {part}: {}", text(page));
    }
}

#[test]
fn completions_for_every_shell_have_all_commands() {
    for shell in completions::Shell::value_variants() {
        let script = completions::completions(*shell, Arguments::command());
        for name in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(script.contains(name.get_name()), "{shell:?} lacks {name}");
        }
        assert!(script.contains("admissions"), "{shell:?} lacks an option");
    }
}

/// Returns what bash proposes for the last of these words.
fn proposed(words: &[&str]) -> Vec<String> {
    let script = completions::completions(completions::Shell::Bash, Arguments::command());
    let script = format!(
        r#"{script}
        COMP_WORDS=(ratelimit "$@") COMP_CWORD=$#
        [[ $(complete -p ratelimit) =~ -F\ ([a-z_]+) ]]
        "${{BASH_REMATCH[1]}}" ratelimit "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
        printf '%s\n' "${{COMPREPLY[@]}}""#
    );
    // It is too long for an argument.
    let mut bash = process::Command::new("bash");
    let bash = bash.args(["-s", "--"]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut bash = bash.spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_proposes_values_and_names_of_interfaces() {
    let algorithms = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"];
    assert_eq!(proposed(&["limit", "set", "default", "--algorithm", ""]), algorithms);
    assert_eq!(proposed(&["attach", "eth0", "--unknown", "a"]), ["auto"]);
    assert_eq!(proposed(&["attach", "eth0", "--mode", "g"]), ["generic"]);
    for command in ["attach", "detach", "doctor"] {
        assert_eq!(proposed(&[command, "lo"]), ["lo"], "{command}");
        assert!(proposed(&["-j", command, ""]).contains(&"lo".to_owned()), "{command}");
    }
    for words in [&["help", "attach", "lo"][..], &["attach", "--comment", "lo"], &["limit", "lo"]] {
        assert!(!proposed(words).contains(&"lo".to_owned()), "{words:?}");
    }
    assert_eq!(proposed(&["attach", "--capac"]), ["--capacity"]);
}

#[test]
fn words_of_other_tools_have_a_tip() {
    for (line, tip) in [
        ("ban 192.0.2.1", "ratelimit deny add ADDRESS --for 10m"),
        ("stop", "ratelimit detach --all"),
        ("undo", "ratelimit events --past"),
        ("allow 192.0.2.1", "ratelimit allow add 192.0.2.1"),
        ("limit default", "ratelimit limit set default"),
        ("statsu", "status"),
        ("--netns a limit set default --packets 10", "(see `ratelimit help limit set`)"),
        ("--pins=/p limit -j set default --packets 10", "(see `ratelimit help limit set`)"),
        ("limit --pins limit set default --packets 10", "(see `ratelimit help limit set`)"),
        ("rules set a --limit 5/m", "(a similar option exists: '--limits')"),
        ("attach eth0 --iface eth1", "unexpected argument '--iface' found (see `ratelimit help attach`)"),
        ("rules set a --shadow off", "unexpected argument 'off' found (write `--shadow=off`)"),
        ("rules set --shadow off a", "unexpected argument 'a' found (write `--shadow=off`)"),
        ("rules set a --shadow b", "unexpected argument 'b' found (see `ratelimit help rules set`)"),
        ("usage --top x --file FILE", "'x' for '--top <N>': expected a whole number (see `ratelimit help usage`)"),
        ("usage --top 99999999999999999999 --file FILE", "'--top <N>': the number is too large ("),
    ] {
        // The packet tool takes any words behind a command that it lacks.
        if cfg!(not(feature = "server")) && ["rules ", "usage "].iter().any(|command| line.starts_with(command)) {
            continue;
        }
        let words = || line.split(' ');
        let error = accepts(words()).unwrap_err();
        let text = parse_error::one_line(&error, Arguments::command(), words().map(str::to_owned));
        assert!(text.contains(tip) && text.lines().count() == 1, "{line}: {text}");
    }
}
