//! Manual pages, which derive from the command line itself.

use std::{fs, io, path::Path};

use anyhow::{Context as _, Result};
use clap_mangen::Man;

use super::print::answer::Answer;

/// The section of the manual for commands of administrators.
const SECTION: &str = "8";

/// Writes the manual pages to a folder.
pub(super) fn write(folder: &Path, command: clap::Command) -> Result<Answer> {
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
    while let Some(mut command) = commands.pop() {
        commands.extend(command.get_subcommands().filter(|below| !below.is_hide_set()).cloned());
        // A synopsis of the generator has options without their values, in the order of no section.
        let usage = command.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim().to_owned();
        let man = Man::new(command.override_usage(usage)).section(SECTION).source(&source).manual("ratelimit");
        let mut page = Vec::new();
        man.render(&mut page)?;
        pages.push((man.get_filename(), page));
    }
    Ok(pages)
}
