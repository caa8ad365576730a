//! Named lists that lie on a server.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    thread,
    time::Instant,
};

use ratelimit_tests::{Authority, Daemon, Folder, Nginx, PATIENCE, Ratelimit, Sandbox};
use serde_json::Value;

use super::{dropped, feed_of};

/// The folder of nginx in the sandbox's own `/run`.
const SERVED: &str = "/run/nginx";
/// The copy of the list.
const COPY: &str = "/run/lists/drop";

/// Starts nginx with TLS, and returns the authority of its certificate.
fn nginx(sandbox: &Sandbox, authority: &Authority) -> Nginx {
    let signed = authority.sign(&["127.0.0.1"]);
    sandbox.victim(|| {
        fs::create_dir_all(SERVED).unwrap();
        fs::write(Path::new(SERVED).join("certificate.pem"), &signed.certificate).unwrap();
        fs::write(Path::new(SERVED).join("key.pem"), &signed.key).unwrap();
    });
    let server = format!(
        "listen 127.0.0.1:8443 ssl; ssl_certificate {SERVED}/certificate.pem; ssl_certificate_key {SERVED}/key.pem;\n\
         access_log {SERVED}/access.log;"
    );
    Nginx::start(sandbox, 8000, &server, "page").unwrap()
}

/// Replaces the list on the server.
fn publish(sandbox: &Sandbox, text: &str) {
    sandbox.victim(|| {
        let [fresh, served] = ["fresh", "drop.txt"].map(|name| Path::new(SERVED).join(name));
        fs::write(&fresh, text).unwrap();
        fs::rename(fresh, served).unwrap();
    });
}

/// Reads lines of the daemon up to one with this text.
pub(super) fn line_with(daemon: &mut Daemon, text: &str) -> String {
    loop {
        let line = daemon.line();
        assert!(!line.is_empty(), "the daemon has ended without {text}");
        if line.contains(text) {
            return line;
        }
    }
}

/// Returns what `status` knows of the list.
pub(super) fn known(ratelimit: &Ratelimit<'_>) -> Value {
    ratelimit.json("status")["config"]["remote_lists"][0].clone()
}

/// Waits until there is a value.
pub(super) fn until<T>(value: impl Fn() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "the daemon has not asked the server");
        thread::yield_now();
    }
}

#[test]
fn a_list_on_a_server_is_fetched_kept_and_followed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let authority = Authority::new("lists");
    let server = nginx(&sandbox, &authority);
    publish(&sandbox, "# feed\n10.1.0.0/16\nbad\n");
    let ca = folder.add("ca.pem", &authority.pem);
    let with_key = |key: &str| {
        format!(
            "interfaces = [\"eth0\"]\n[[list]]\nname = \"drop\"\nurl = \"https://127.0.0.1:8443/drop.txt?key={key}\"\n\
             ca-file = \"{}\"\ncopy = \"{COPY}\"\n",
            ca.display()
        )
    };
    folder.write(&with_key("secret"));
    let file = folder.file();
    let checked = ratelimit.run(&format!("check {}", file.display()));
    assert_eq!(checked.status, 0, "{checked:?}");
    assert!(checked.stderr.contains("list drop: /run/lists/drop has not been fetched yet: the daemon fetches https"));

    let mut daemon = Daemon::start(&sandbox, &ratelimit, &file);
    let first = daemon.line();
    assert!(first.contains("in force") && first.contains("drop has not been fetched yet, so the list is"), "{first}");
    line_with(&mut daemon, "lists changed: drop");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 10);
    let mode = sandbox.victim(|| fs::metadata(COPY).unwrap().permissions().mode());
    assert_eq!(mode & 0o777, 0o600);
    let before = known(&ratelimit);
    assert_eq!((&before["name"], &before["failure"]), (&"drop".into(), &Value::Null));
    assert_eq!(before["url"], "https://127.0.0.1:8443/drop.txt");
    // The address is shown without its query, and not the copy.
    ratelimit.ok_with("list set mine -", "10.77.0.0/16\n");
    let lists = ratelimit.json("list list");
    let of = |index: usize| [&lists[index]["name"], &lists[index]["url"]].map(Value::clone);
    assert_eq!(of(0), ["drop".into(), before["url"].clone()]);
    assert_eq!(of(1), ["mine".into(), Value::Null]);
    let text = ratelimit.ok("list list");
    assert!(text.lines().nth(1).unwrap().ends_with("config   https://127.0.0.1:8443/drop.txt"), "{text}");
    assert!(
        ratelimit
            .ok("list show drop")
            .ends_with("  set by the configuration file, from https://127.0.0.1:8443/drop.txt\n")
    );
    ratelimit.ok("list del mine");
    let checked = ratelimit.ok(&format!("check {}", file.display()));
    assert!(checked.contains("  list drop: https://127.0.0.1:8443/drop.txt has confirmed the copy "), "{checked}");
    let saved = ratelimit.ok("save");
    assert!(
        saved.contains("url = \"https://127.0.0.1:8443/drop.txt?key=secret\"\ncopy = \"/run/lists/drop\""),
        "{saved}"
    );

    // The server says that nothing has changed.
    let reloaded = ratelimit.ok("reload");
    assert!(reloaded.contains("; lists that are fetched now: drop (last: "), "{reloaded}");
    let after = until(|| Some(known(&ratelimit)).filter(|now| now["checked_at"] != before["checked_at"]));
    assert_eq!(after["changed_at"], before["changed_at"]);
    let log = sandbox.victim(|| fs::read_to_string(Path::new(SERVED).join("access.log")).unwrap());
    let statuses: Vec<_> = log.lines().map(|line| line.split_whitespace().nth(8).unwrap()).collect();
    assert_eq!(statuses, ["200", "304"], "{log}");

    // The same list from another address makes the copy usable again.
    folder.write(&with_key("other"));
    line_with(&mut daemon, "drop has not been fetched yet, so the previous list stays in force");
    let reloaded = line_with(&mut daemon, "reloaded");
    assert!(!reloaded.contains("has not been fetched yet"), "{reloaded}");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 10);

    // A copy that another program has changed is fetched as a whole.
    sandbox.victim(|| fs::write(COPY, "10.5.0.0/16\n").unwrap());
    ratelimit.ok("reload");
    line_with(
        &mut daemon,
        "drop is not as the daemon wrote it, and the next request replaces it, so the previous list",
    );
    let reloaded = line_with(&mut daemon, "reloaded");
    assert!(!reloaded.contains("as the daemon wrote it"), "{reloaded}");
    assert_eq!(sandbox.victim(|| fs::read_to_string(COPY).unwrap()), "10.1.0.0/16\n");

    // The list changes, and then becomes a page.
    publish(&sandbox, "10.2.0.0/16\n10.3.0.1\n");
    ratelimit.ok("reload");
    line_with(&mut daemon, "lists changed: drop");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 2, 0, 1]), 10);
    publish(&sandbox, "<html><body>10.9.0.1</body></html>\n");
    ratelimit.ok("reload");
    let line = line_with(&mut daemon, "is not fetched");
    let expected = "list drop: https://127.0.0.1:8443/drop.txt is not fetched, the last copy stays in use: the answer is a \
                    web page, not a list: check the address";
    assert!(line.ends_with(expected), "{line}");
    assert_eq!(ratelimit.json("list show drop")["entries"], 2);
    let metrics = ratelimit.ok("metrics");
    for sample in [
        "ratelimit_config_list_usable{list=\"drop\"} 1\n",
        "ratelimit_config_list_fetch_successful{list=\"drop\"} 0\n",
        "ratelimit_config_list_fetch_success_timestamp_seconds{list=\"drop\"} 1",
    ] {
        assert!(metrics.contains(sample), "{sample}{metrics}");
    }
    let status = ratelimit.ok("status");
    assert!(status.contains("not fetched: list drop, last success "), "{status}");
    let doctor = ratelimit.run("doctor").stdout;
    assert!(
        doctor.contains(" ago. The daemon tries again after at most an hour, or after `every` of the list"),
        "{doctor}"
    );

    // A restart without the server uses the copy.
    daemon.end();
    ratelimit.ok("detach --all");
    drop(server);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &file);
    line_with(&mut daemon, "in force");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 3, 0, 1]), 10);
    ratelimit.ok("reload");
    let line = line_with(&mut daemon, "is not fetched");
    assert!(line.contains("the last copy stays in use: cannot connect to 127.0.0.1:8443: "), "{line}");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_of_a_server_that_loses_most_entries_is_refused_until_its_table_allows_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let authority = Authority::new("lists");
    let _server = nginx(&sandbox, &authority);
    publish(&sandbox, &feed_of(40));
    let ca = folder.add("ca.pem", &authority.pem);
    let with = |key: &str| {
        format!(
            "interfaces = [\"eth0\"]\n[[list]]\nname = \"drop\"\nurl = \"https://127.0.0.1:8443/drop.txt\"\n\
             ca-file = \"{}\"\ncopy = \"{COPY}\"\n{key}",
            ca.display()
        )
    };
    folder.write(&with(""));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    line_with(&mut daemon, "lists changed: drop");
    publish(&sandbox, "10.9.0.1\n");
    let expected = "the list falls from 40 to 1 entries: if this is right, add may-shrink = true";
    let mut checked = known(&ratelimit)["checked_at"].clone();
    for _ in 0..3 {
        ratelimit.ok("reload");
        let failed = until(|| Some(known(&ratelimit)).filter(|now| now["failure"] == expected));
        assert_eq!(failed["checked_at"], checked);
        assert_eq!(ratelimit.json("list show drop")["entries"], 40);
        // An answer that is as expected comes between, so that the next failure is new.
        publish(&sandbox, &feed_of(40));
        ratelimit.ok("reload");
        checked = until(|| Some(known(&ratelimit)).filter(|now| now["failure"].is_null()))["checked_at"].clone();
        publish(&sandbox, "10.9.0.1\n");
    }
    ratelimit.ok("reload");
    until(|| Some(known(&ratelimit)).filter(|now| now["failure"] == expected));
    // A request follows at once.
    folder.write(&with("may-shrink = true\n"));
    line_with(&mut daemon, "lists changed: drop");
    assert_eq!(ratelimit.json("list show drop")["entries"], 1);
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Returns a line of `/proc/PID/status` of each child of a process.
fn of_children(process: u32, key: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let children = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default());
    let children: Vec<String> =
        children.flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let line = |child: &String| {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap();
        status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned()
    };
    children.iter().map(line).collect()
}

/// Accepts a connection, and reads a request.
pub(super) fn request(listener: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
    (stream, String::from_utf8(request).unwrap())
}

#[test]
fn a_process_without_privileges_talks_to_the_server_within_bounds() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let listener = sandbox.victim(|| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let token = folder.add("token", "s3cret\n");
    folder.write(&format!(
        "interfaces = [\"eth0\"]\n[[list]]\nname = \"drop\"\nurl = \"http://127.0.0.1:{port}/drop\"\nmax-size = \"1MB\"\n\
         token-file = \"{}\"\ncopy = \"{COPY}\"\n",
        token.display()
    ));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let (mut stream, head) = request(&listener);
    assert!(head.contains("authorization: Bearer s3cret\r\n"), "{head}");
    let of_child = |key| of_children(daemon.process.child.id(), key);
    assert_eq!(of_child("Uid:"), ["65534\t65534\t65534\t65534"]);
    assert_eq!(of_child("Gid:"), ["65534\t65534\t65534\t65534"]);
    assert_eq!(of_child("Groups:"), [""]);
    for key in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
        assert_eq!(of_child(key), ["0000000000000000"], "{key}");
    }
    assert_eq!(of_child("NoNewPrivs:"), ["1"]);
    // While the server is silent, commands change the instance.
    ratelimit.ok("deny add 10.8.0.1");
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n10.1.0.1\n").unwrap();
    let line = line_with(&mut daemon, "is not fetched");
    assert!(line.ends_with("there is no copy: the answer has more than 1000000 bytes"), "{line}");
    drop(stream);
    ratelimit.ok("reload");
    let (mut stream, _) = request(&listener);
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n10.1.0.1\n").unwrap();
    drop(stream);
    let line = line_with(&mut daemon, "the answer of 127.0.0.1");
    assert!(line.contains("there is no copy: "), "{line}");
    assert!(!sandbox.victim(|| Path::new(COPY).exists()));
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 0);
    daemon.end();
    ratelimit.ok("detach --all");
}
