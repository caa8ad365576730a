//! Commands that need a feature which this build lacks.

use std::ffi::OsString;

use anyhow::{Result, bail};

use super::print::answer::Answer;

/// Any words, which nothing reads.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<OsString>,
}

/// Refuses the command.
pub(crate) fn answer(feature: &str) -> Result<Answer> {
    bail!("built without `{feature}`: use a build of ratelimit with all features")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::{Arguments, run};

    #[test]
    fn a_command_that_this_build_lacks_names_the_feature() {
        let lacks = [
            ("fleet", cfg!(feature = "fleet"), &["fleet", "rules", "set", "--why", "x"][..]),
            ("server", cfg!(feature = "server"), &["serve", "-c", "file"]),
            ("server", cfg!(feature = "server"), &["rules", "list"]),
            ("server", cfg!(feature = "server"), &["usage", "--help"]),
            ("top", cfg!(feature = "top"), &["top"]),
        ];
        for (feature, _, words) in lacks.iter().filter(|(_, is_there, _)| !is_there) {
            let words = ["ratelimit"].iter().chain(*words);
            let error = run(Arguments::try_parse_from(words).unwrap()).unwrap_err();
            let expected = format!("built without `{feature}`: use a build of ratelimit with all features");
            assert_eq!(error.to_string(), expected);
        }
    }
}
