//! Commands in code blocks, checked by the product's own command line. Nothing runs, so that no privilege is needed.

use xtask::documents::commands;

use crate::{assert_none, pages};

#[test]
fn the_product_accepts_every_command_in_the_documents() {
    let accepts = |words: &[String]| {
        let result = ratelimit::cli::accepts(words.iter().map(String::as_str));
        result.map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    };
    let findings: Vec<_> = pages().iter().flat_map(|page| commands::check(page, "ratelimit", &accepts)).collect();
    assert_none(&findings.iter().map(ToString::to_string).collect::<Vec<_>>());
}

#[test]
fn a_command_that_does_not_exist_is_refused_and_help_is_not() {
    for line in ["status", "attach eth0 --shadow", "help limit", "limit set --help", "--version"] {
        assert!(ratelimit::cli::accepts(line.split(' ')).is_ok(), "{line}");
    }
    for line in ["", "attack eth0", "limit set default --packets many"] {
        assert!(ratelimit::cli::accepts(line.split_whitespace()).is_err(), "{line}");
    }
}
