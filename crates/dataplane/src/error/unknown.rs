//! Why unknown sources cannot be limited, or cannot prove their addresses.

use thiserror::Error;

/// What is missing.
#[derive(Debug, Error)]
pub enum UnknownError {
    /// Cells remember known sources.
    #[error(
        "the running instance has no cells, which --unknown needs: `ratelimit detach --all` first, then attach without --front off"
    )]
    NoCells,
    /// SYN cookies act only over the rate of unknown sources.
    #[error("--prove tcp acts only over the rate of unknown sources, which has no limit: add --unknown RATE")]
    NoUnknown,
    /// The network namespace makes no SYN cookies for the program.
    #[error(
        "--prove tcp needs net.ipv4.tcp_syncookies = 2 in this network namespace, and it is {0}: `sysctl -w net.ipv4.tcp_syncookies=2`, and the same in a file in /etc/sysctl.d for the next start"
    )]
    SynCookies(String),
    /// The kernel lacks a function.
    #[error("--prove tcp needs the kernel's function {0}, which this kernel does not offer to XDP programs")]
    Function(&'static str),
}
