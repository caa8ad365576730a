//! Which server to call, and with which token.

use std::{env, fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use ratelimit_client::caller::{Address, Authority, CallerError, Server};

/// The environment variable with a token.
const TOKEN: &str = "RATELIMIT_TOKEN";

#[derive(Debug, clap::Args)]
pub(crate) struct ServerOptions {
    /// Server: unix:/PATH, https://HOST:PORT, or http://ADDRESS:PORT on this host
    #[arg(long, value_name = "URL", env = "RATELIMIT_SERVER", value_parser = private)]
    server: Address,
    /// File with the token. Without this option, the environment variable RATELIMIT_TOKEN has it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the authority of the server's certificate, as PEM. Without this option, it is one that the system trusts
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Reads an address where a token is safe.
fn private(text: &str) -> Result<Address> {
    let address: Address = text.parse()?;
    if !address.is_private() {
        bail!(CallerError::Exposed(address.to_string()));
    }
    Ok(address)
}

impl ServerOptions {
    /// Reads the files that the options name.
    pub(super) fn open(&self) -> Result<Server> {
        let (origin, token) = match &self.token_file {
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
                (path.display().to_string(), Some(text))
            }
            None => (TOKEN.to_owned(), env::var(TOKEN).ok()),
        };
        let mut server = Server::new(self.server.clone());
        if let Some(token) = token {
            server = server.with_token(token.parse().with_context(|| origin)?);
        }
        if let Some(path) = &self.ca {
            let pem = fs::read(path).with_context(|| format!("--ca: {}: cannot be read", path.display()))?;
            let authority = Authority::of_pem(&pem).with_context(|| format!("--ca: {}", path.display()))?;
            server = server.with_authority(authority);
        }
        Ok(server)
    }
}
