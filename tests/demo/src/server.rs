//! The victim's web server.

use anyhow::{Result, anyhow};
use ratelimit_sandbox::{Sandbox, VICTIM_IPV4};
use tiny_http::Response;

/// Bytes of the page.
pub(crate) const PAGE: usize = 20_000;

/// A web server that listens from its creation on.
pub(crate) struct Server(tiny_http::Server);

impl Server {
    pub(crate) fn start(sandbox: &Sandbox) -> Result<Self> {
        let server = sandbox.victim(|| tiny_http::Server::http((VICTIM_IPV4, 80)));
        server.map(Self).map_err(|error| anyhow!("cannot start the web server: {error}"))
    }

    /// Serves requests until stopped.
    pub(crate) fn serve(&self) {
        let page = ".".repeat(PAGE);
        for request in self.0.incoming_requests() {
            // A client that has closed the connection is no error of the server.
            let _ = request.respond(Response::from_string(&page));
        }
    }

    pub(crate) fn stop(&self) {
        self.0.unblock();
    }
}
