//! Named lists that lie on a server, under the shipped unit.

use std::{fs, io::Write as _, net::TcpListener, path::Path};

use ratelimit_tests::{Ratelimit, Sandbox, Systemd};
use xtask::documents::page::Page;

use super::{
    dropped,
    server::{known, request, until},
};

const UNIT: &str = include_str!("../../../../dist/ratelimit.service");

#[test]
fn the_unit_fetches_nothing_with_root_privileges_and_the_lines_of_the_documents_permit_it_to_give_them_up() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let systemd = Systemd::start(&sandbox, &ratelimit, UNIT);
    let listener = sandbox.victim(|| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let file = format!("interfaces = [\"eth0\"]\n[[list]]\nname = \"drop\"\nurl = \"http://127.0.0.1:{port}/drop\"\n");
    sandbox.victim(|| fs::write("/run/etc/ratelimit/ratelimit.toml", file).unwrap());
    systemd.ok("systemctl start ratelimit");
    let failed = until(|| Some(known(&ratelimit)).filter(|list| list["failure"].is_string()));
    let why = failed["failure"].as_str().unwrap();
    assert!(why.starts_with("nothing is fetched with root privileges") && why.contains("CAP_SETUID"), "{why}");

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let page = Page::read(&root, "docs/configuration.md").unwrap();
    let lines = page.blocks.iter().find(|block| block.code.contains("CAP_SETUID")).unwrap();
    sandbox.victim(|| {
        let folder = Path::new("/run/units/ratelimit.service.d");
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("lists.conf"), &lines.code).unwrap();
    });
    systemd.ok("systemctl daemon-reload");
    systemd.ok("systemctl restart ratelimit");
    let (mut stream, _) = request(&listener);
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n10.1.0.0/16\n").unwrap();
    until(|| ratelimit.json("list list").as_array().filter(|lists| lists.len() == 1).map(|_| ()));
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 10);
    assert!(sandbox.victim(|| Path::new("/run/lib/ratelimit/lists/drop").exists()));
    systemd.ok("systemctl stop ratelimit");
    ratelimit.ok("detach --all");
}
