//! The sources of the packages: a commit, and its time.

use std::{env, fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{run::output, target};

/// Sources in a folder, which may have no repository.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) root: PathBuf,
    pub(super) commit: String,
    /// The time of the commit, in seconds since 1970. Files in packages have it.
    pub(super) epoch: String,
    pub(super) version: &'static str,
}

impl Source {
    /// Returns the sources of this checkout. Sources without a repository need `SOURCE_COMMIT` and `SOURCE_DATE_EPOCH`.
    ///
    /// # Errors
    ///
    /// Fails if something has changed since the commit.
    pub(super) fn of_this_checkout() -> Result<Self> {
        // Without the slash at its end.
        let root: PathBuf = target::workspace().components().collect();
        let git = |words: &[&str]| output(Command::new("git").arg("-C").arg(&root).args(words));
        let given = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let given = (given("SOURCE_COMMIT"), given("SOURCE_DATE_EPOCH"));
        let (commit, epoch) = if root.join(".git").exists() {
            let changes = git(&["status", "--porcelain"])?;
            ensure!(changes.is_empty(), "commit your changes first: packages name the commit of their sources");
            let commit = git(&["rev-parse", "HEAD"])?;
            let is_same = given.0.is_none_or(|given| given == commit.trim());
            ensure!(is_same, "SOURCE_COMMIT is not the commit of this checkout, {}: unset it", commit.trim());
            (commit, git(&["log", "-1", "--format=%ct"])?)
        } else {
            let (Some(commit), Some(epoch)) = given else {
                bail!("without git, set SOURCE_COMMIT and SOURCE_DATE_EPOCH");
            };
            (commit, epoch)
        };
        let (commit, epoch) = (commit.trim().to_owned(), epoch.trim().to_owned());
        ensure!(epoch.bytes().all(|byte| byte.is_ascii_digit()), "SOURCE_DATE_EPOCH must be a number of seconds");
        Ok(Self { root, commit, epoch, version: env!("CARGO_PKG_VERSION") })
    }

    /// Returns the time of the commit as `date` formats it.
    pub(super) fn time(&self, format: &str) -> Result<String> {
        let mut date = Command::new("date");
        date.env("LC_ALL", "C").args(["--utc", &format!("--date=@{}", self.epoch), &format!("+{format}")]);
        Ok(output(&mut date)?.trim().to_owned())
    }

    /// Returns a part of the scripts that package managers run.
    pub(super) fn script(&self, name: &str) -> Result<String> {
        let path = self.root.join(format!("dist/package/{name}.sh"));
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}
