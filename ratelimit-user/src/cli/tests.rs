//! Tests of the command line as a whole.

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
        ("--strangers=5/s", "--unknown=5/s", "--unknown <RATE|off>"),
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
fn words_of_other_tools_have_a_tip() {
    for (line, tip) in [
        ("ban 192.0.2.1", "ratelimit deny add ADDRESS --for 10m"),
        ("stop", "ratelimit detach --all"),
        ("undo", "ratelimit events --past"),
        ("allow 192.0.2.1", "ratelimit allow add 192.0.2.1"),
        ("limit default", "ratelimit limit set default"),
        ("statsu", "status"),
    ] {
        let words = || line.split(' ');
        let error = accepts(words()).unwrap_err();
        let text = parse_error::one_line(&error, Arguments::command(), words().map(str::to_owned));
        assert!(text.contains(tip) && text.lines().count() == 1, "{line}: {text}");
    }
}
