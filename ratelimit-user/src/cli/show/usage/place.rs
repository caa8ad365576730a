//! Where usage is.

use std::{
    fmt,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow, bail};
use ratelimit_base::tables::problem::ConfigError;
use ratelimit_fleet::{address::Address, way};
use ratelimit_server::{
    config::{self as requests, Requests},
    usage::{UsageError, UsagePlace},
};

/// The file that has usage, or says where it is. One of both is there.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Place {
    /// Configuration file of the server, which says where usage is kept
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The file with usage itself
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// What has usage.
pub(super) enum Source {
    File(PathBuf),
    Engine(Address),
}

impl Place {
    pub(super) fn source(&self) -> Result<Source> {
        let config = match self {
            Self { file: Some(file), .. } => return Ok(Source::File(file.clone())),
            Self { config: Some(config), .. } => config,
            _ => bail!("name a file: --config FILE or --file FILE"),
        };
        let Requests { usage, fleet, .. } = requests::read(config).map_err(|error| match error {
            ConfigError::Unreadable { path, cause } if cause.kind() == ErrorKind::InvalidData => {
                anyhow!("{}: this is no text: if it is the file with usage, name it by --file", path.display())
            }
            error => error.into(),
        })?;
        match (usage, fleet.map(|fleet| fleet.engine)) {
            (Some(UsagePlace::File(file)), _) => Ok(Source::File(file.path)),
            (Some(UsagePlace::Fleet(_)), Some(way::Place::Server(address))) => Ok(Source::Engine(address)),
            (Some(UsagePlace::Fleet(_)), _) => {
                bail!("{}: usage = \"fleet\" needs a table [fleet] with a server as engine", config.display())
            }
            (None, _) => bail!("{}: no usage is kept: add `usage` to the table [serve]", config.display()),
        }
    }

    /// Returns an error with what to do if `--file` names another file than the one with usage.
    pub(super) fn hint(&self, error: UsageError) -> anyhow::Error {
        let named = |path: &Path, problem: &str| {
            let advice = "name the file of the key `usage` in [serve], or the configuration by --config";
            anyhow!("{}: {problem}: {advice}", path.display())
        };
        match (&error, &self.file) {
            (UsageError::Foreign(path), Some(_)) => named(path, "this is no file with usage"),
            (UsageError::Missing(path), Some(_)) => named(path, "no such file"),
            _ => error.into(),
        }
    }
}

impl fmt::Display for Place {
    /// Writes the option that was given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |path: &Option<PathBuf>| path.as_deref().unwrap_or(Path::new("FILE")).display().to_string();
        match &self.file {
            Some(_) => write!(f, "--file {}", named(&self.file)),
            None => write!(f, "-c {}", named(&self.config)),
        }
    }
}
