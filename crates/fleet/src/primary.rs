//! Whether a server can be the engine. A replica only reads, and a server that loads its data answers no report.

use redis::{Client, ConnectionInfo, ErrorKind, RedisResult, aio::MultiplexedConnection, cmd};

use crate::error::Error;

/// Connects to a server that can be the engine.
///
/// # Errors
///
/// [`Error::Server`] if it is a replica, loads its data, or refuses. [`Error::Lost`] if it cannot be reached.
pub(super) async fn connect(
    server: &ConnectionInfo,
    config: &redis::AsyncConnectionConfig,
) -> Result<MultiplexedConnection, Error> {
    let mut connection = Client::open(server.clone())?.get_multiplexed_async_connection_with_config(config).await?;
    let info: RedisResult<String> = cmd("INFO").query_async(&mut connection).await;
    match info {
        Ok(info) => unfit(&info).map_or(Ok(connection), |why| Err(Error::Server(why.to_owned()))),
        // The first report shows what a server can do whose user may not ask.
        Err(error) if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => Ok(connection),
        Err(error) => Err(error.into()),
    }
}

/// Returns why a server with this INFO cannot be the engine. None if it can.
fn unfit(info: &str) -> Option<&'static str> {
    let is = |line: &str| info.lines().any(|other| other.trim_end() == line);
    if is("loading:1") {
        return Some("it still loads its data");
    }
    // A replica may be one that writes.
    (is("role:slave") && !is("slave_read_only:0")).then_some("it is a replica, which only reads: name its primary")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_only_reads_and_a_server_that_loads_are_no_engine() {
        assert_eq!(unfit("# Replication\r\nrole:master\r\nloading:0\r\n"), None);
        assert_eq!(unfit("role:slave\r\nslave_read_only:0\r\n"), None);
        assert_eq!(unfit(""), None);
        assert!(unfit("role:slave\r\nslave_read_only:1\r\n").unwrap().contains("replica"));
        assert!(unfit("loading:1\r\nrole:master\r\n").unwrap().contains("loads"));
    }
}
