//! `ratelimit serve` behind a real nginx.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
};

use ratelimit_tests::{Nginx, PATIENCE, Sandbox};
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

/// Returns the recipe of the documents for this server, with the line that names the client.
fn recipe(server: &Server) -> String {
    let page_of_docs =
        Page::read(&Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(""), "docs/requests.md").unwrap();
    let recipe = page_of_docs.blocks.iter().find(|block| block.language == "nginx").unwrap();
    assert!(recipe.code.contains(USER), "{}", recipe.code);
    recipe
        .code
        .replace(USER, USER.trim_start_matches("# "))
        .replace("proxy_pass http://application;", "try_files /index.html =404;")
        .replace("/run/ratelimit-check/check.sock", server.socket.to_str().unwrap())
}

/// Returns the status of a call with exactly this target and these headers.
fn raw(sandbox: &Sandbox, target: &str, headers: &[u8]) -> u16 {
    let call = [format!("GET {target} HTTP/1.1\r\nhost: x\r\n").as_bytes(), headers, b"\r\n"].concat();
    let answer = sandbox.victim(|| {
        let mut stream = TcpStream::connect("127.0.0.1:8000").unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&call).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    });
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn behind_nginx_no_spelling_of_a_path_and_no_byte_of_a_client_evades_a_limit() {
    let sandbox = Sandbox::new();
    let rules = "[[check]]\nname = \"login\"\nmatch = { path = \"/login\" }\nkey = \"ip\"\nlimits = \"1/h\"\n[[check]]\nname \
                 = \"each\"\nkey = [\"ip\", \"path\"]\nlimits = \"2/h\"\n[[check]]\nname = \"user\"\nkey = \"user\"\nlimits = \
                 \"1000/h\"\n";
    let server = Server::start(&sandbox, rules);
    let config = recipe(&server).replace("$ssl_client_s_dn", "$http_x_api_key");
    let _nginx = Nginx::start(&sandbox, 8000, &config, "page").unwrap();
    assert_eq!([raw(&sandbox, "/login", b""), raw(&sandbox, "/login", b"")], [200, 429]);
    for target in [
        "/%6cogin",
        "/%6C%6f%67in",
        "/./login",
        "//login",
        "/x/../login",
        "/login#f",
        "/login;v=1",
        "/login?x",
        "/%2e/login",
        "/x/%2e%2e/login",
        "/x//y/..//../login",
        "http://x/login",
        "/%2flogin",
        "/login%3bv=1",
        "/login%3fx",
    ] {
        assert_eq!(raw(&sandbox, target, b""), 429, "{target}");
    }
    // With the path in the key, a spelling has no limit of its own.
    let each = ["/a%62c", "//abc", "/abc", "/x/../abc;v"].map(|target| raw(&sandbox, target, b""));
    assert_eq!(each, [200, 200, 429, 429]);
    // Control bytes make a key missing, and no rule by address or path.
    for key in [&b"k\x01"[..], b"\x1b[0m", b"k\x7f"] {
        assert_eq!(raw(&sandbox, "/login", &[b"X-Api-Key: ", key, b"\r\n"].concat()), 429, "{key:?}");
    }
    let metrics = server.call("GET /metrics HTTP/1.1", "").body;
    let unreadable = series(metrics.as_str().unwrap())["ratelimit_check_unreadable_attributes_total"];
    assert_eq!(unreadable, 3.0);
    // A line end in a path adds no header.
    for target in
        ["/login%0d%0aX-Cost:%200", "/login%0aX-Attribute-Ip:%20192.0.2.7", "/b%0D%0AX-Attribute-Ip:%20192.0.2.7"]
    {
        for _ in 0..5 {
            assert_eq!(raw(&sandbox, target, b""), 400, "{target}");
        }
    }
    // A question that is too large stops only the client that has caused it.
    let header = format!("X-Api-Key: {}\r\n", "k".repeat(7_000));
    assert_eq!(raw(&sandbox, "/login", header.as_bytes()), 429);
    server.end();
}

#[test]
fn nginx_passes_429_on_as_the_documents_show_it_and_lets_requests_pass_without_the_server() {
    let sandbox = Sandbox::new();
    let rule = "stops = \"/nowhere/stops\"\n[[check]]\nname = \"login\"\nmatch = { path = \"/login\" }\nkey = \"user\"\n\
                limits = \"2/m\"\nstop-at-nic = true\n";
    let server = Server::start(&sandbox, rule);
    let config = recipe(&server).replace("$ssl_client_s_dn", "17");
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
