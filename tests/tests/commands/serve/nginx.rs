//! `ratelimit serve` behind a real nginx.

use std::{path::Path, process::Command};

use ratelimit_tests::{Nginx, Sandbox};
use xtask::documents::page::Page;

use super::Server;
use crate::metrics::series;

/// The line of the recipe that names the client.
const USER: &str = "# proxy_set_header X-Attribute-User $ssl_client_s_dn;";

/// Returns the status of a page, and its header `Retry-After`.
fn page(sandbox: &Sandbox, path: &str) -> (u16, String) {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--output",
        "/dev/null",
        "--max-time",
        "10",
        "--write-out",
        "%{http_code} %header{retry-after}",
    ]);
    curl.args(["--header", "X-Attribute-Ip: 192.0.2.9", &format!("http://127.0.0.1:8000{path}")]);
    let output = sandbox.output(&mut curl);
    let text = String::from_utf8(output.stdout).unwrap();
    let (status, wait) = text.split_once(' ').unwrap();
    (status.parse().unwrap(), wait.to_owned())
}

#[test]
fn nginx_passes_429_on_as_the_documents_show_it_and_lets_requests_pass_without_the_server() {
    let sandbox = Sandbox::new();
    let rule = "stops = \"/nowhere/stops\"\n[[check]]\nname = \"login\"\nmatch = { path = \"/login\" }\nkey = \"user\"\n\
                limits = \"2/m\"\nstop-at-nic = true\n";
    let server = Server::start(&sandbox, rule);
    let page_of_docs =
        Page::read(&Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(""), "docs/requests.md").unwrap();
    let recipe = page_of_docs.blocks.iter().find(|block| block.language == "nginx").unwrap();
    assert!(recipe.code.contains(USER), "{}", recipe.code);
    let config = recipe
        .code
        .replace(USER, USER.trim_start_matches("# "))
        .replace("$ssl_client_s_dn", "17")
        .replace("proxy_pass http://application;", "try_files /index.html =404;")
        .replace("/run/ratelimit-check/check.sock", server.socket.to_str().unwrap());
    let _nginx = Nginx::start(&sandbox, 8000, &config, "page").unwrap();
    assert_eq!([page(&sandbox, "/login?a").0, page(&sandbox, "/login?b").0], [200, 200]);
    let (status, wait) = page(&sandbox, "/login");
    assert_eq!(status, 429);
    assert!((1..=66).contains(&wait.parse::<u64>().unwrap()), "{wait}");
    // The recipe names the connection of the client, whose address is not known for long enough.
    let metrics = server.call("GET /metrics HTTP/1.1", "").body;
    let metrics = series(metrics.as_str().unwrap());
    let count = |outcome: &str| metrics[&format!("ratelimit_check_stops_total{{outcome=\"{outcome}\"}}")];
    assert_eq!((count("early"), count("no_connection")), (1.0, 0.0));
    // No rule counts it.
    assert_eq!(page(&sandbox, "/"), (200, String::new()));
    // A limiter that fails does not stop the service.
    server.end();
    assert_eq!(page(&sandbox, "/login"), (200, String::new()));
}
