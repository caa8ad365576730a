//! What derives from the command line itself: completions for shells, and manual pages.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use clap_complete::aot;
use clap_mangen::Man;

use super::print::answer::Answer;

/// The section of the manual for commands of administrators.
const SECTION: &str = "8";

/// A shell that completes commands.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl From<Shell> for aot::Shell {
    fn from(shell: Shell) -> Self {
        match shell {
            Shell::Bash => Self::Bash,
            Shell::Zsh => Self::Zsh,
            Shell::Fish => Self::Fish,
        }
    }
}

/// Prints the completions for a shell.
pub(super) fn print_completions(shell: Shell, command: clap::Command) -> Result<Answer> {
    io::stdout().write_all(&completions(shell, command))?;
    Ok(Answer::Done)
}

/// Returns the script that completes commands in a shell.
pub(super) fn completions(shell: Shell, mut command: clap::Command) -> Vec<u8> {
    let mut script = Vec::new();
    // A failed write would panic there. A vector takes everything.
    aot::generate(aot::Shell::from(shell), &mut command, "ratelimit", &mut script);
    script
}

/// Writes the manual pages to a folder.
pub(super) fn write_manual(folder: &Path, command: clap::Command) -> Result<Answer> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (name, page) in manual(command)? {
        let path = folder.join(name);
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Answer::Done)
}

/// Returns a manual page for each command, with the names of their files.
pub(super) fn manual(command: clap::Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = command.disable_help_subcommand(true);
    root.build();
    let source = format!("ratelimit {}", root.get_version().unwrap_or_default());
    let (mut pages, mut commands) = (Vec::new(), vec![root]);
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().filter(|below| !below.is_hide_set()).cloned());
        let man = Man::new(command).section(SECTION).source(&source).manual("ratelimit");
        let mut page = Vec::new();
        man.render(&mut page)?;
        pages.push((man.get_filename(), page));
    }
    Ok(pages)
}
