//! UDP datagrams.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

/// Binds a socket to this address, in the calling thread's network namespace.
pub(crate) fn bind(address: impl Into<IpAddr>) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(address.into(), 0)).context("cannot make a UDP socket")?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(socket)
}

/// The client sends a datagram of this size to `address`, where the server listens, and receives one of the same size.
pub(crate) fn echo(client: &UdpSocket, server: &UdpSocket, address: impl Into<IpAddr>, bytes: usize) -> Result<()> {
    let mut heard = vec![0; bytes + 1];
    client.send_to(&vec![b'?'; bytes], (address.into(), server.local_addr()?.port()))?;
    let (length, from) = server.recv_from(&mut heard).context("the datagram did not arrive")?;
    ensure!(length == bytes, "{length} of {bytes} bytes arrived");
    server.send_to(&vec![b'!'; bytes], from)?;
    let length = client.recv(&mut heard).context("the response did not arrive")?;
    ensure!(length == bytes, "{length} of {bytes} bytes came back");
    Ok(())
}
