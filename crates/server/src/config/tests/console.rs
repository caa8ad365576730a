//! The tables `[console]`, `[[user]]` and `[view]`.

use super::*;
use crate::config as requests;

const TOKEN: &str = "[[token]]\nname = \"a\"\nsha256 = \"4c36be14f17fc520a31c8597e2d845099be95a309ecc21684cde71ab6e63cd27\"\n\
                     scope = \"rules:*\"\n";
const USER: &str = "[[user]]\nname = \"alice@example.org\"\nscope = [\"rules:a-*\", \"packets:read\"]\n";

#[test]
fn each_key_is_read() {
    let text = format!(
        "[serve]\nhttp = \"unix:/run/a\"\n[console]\nlisten = \"127.0.0.1:81\"\nuser-header = \"X-User\"\n\
         proxies = [\"192.0.2.1\", \"2001:db8::/48\"]\npackets = \"/run/view\"\n{USER}"
    );
    let requests = requests::parse(&text).unwrap();
    let console = requests.console.unwrap();
    assert_eq!(
        (console.listen.to_string().as_str(), console.header.as_deref()),
        ("http://127.0.0.1:81", Some("x-user"))
    );
    assert_eq!(console.proxies.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.1", "2001:db8::/48"]);
    assert_eq!(console.packets.unwrap().to_str(), Some("/run/view"));
    assert_eq!(
        requests.users[0].scopes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["rules:a-*", "packets:read"]
    );
    let view = parse_all("interfaces = []\n[view]\nsocket = \"/run/view\"\ngroup = \"check\"\n").unwrap().view.unwrap();
    assert_eq!((view.socket.to_str(), view.group.as_deref()), (Some("/run/view"), Some("check")));
}

#[test]
fn a_table_that_lets_anyone_in_or_nobody_is_refused() {
    let of = |console: &str, more: &str| {
        let text = format!("[serve]\nhttp = \"127.0.0.1:80\"\n[console]\n{console}\n{more}");
        let problems = requests::parse(&text).err().unwrap_or_default();
        problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    };
    let local = "listen = \"127.0.0.1:81\"";
    assert_eq!(of(local, TOKEN), "");
    for (console, more, expected) in [
        (local.to_owned(), "", "nobody could sign in: add a table [[token]]"),
        (
            "listen = \"0.0.0.0:81\"".to_owned(),
            TOKEN,
            "other machines can reach this address: add tls-cert and tls-key",
        ),
        ("listen = \"127.0.0.1:80\"".to_owned(), TOKEN, "a key of [serve] has this address"),
        (format!("{local}\nuser-header = \"x-user\""), USER, "any client could send this header: name the addresses"),
        (
            "listen = \"unix:/run/c\"\nuser-header = \"x-user\"".to_owned(),
            USER,
            "any program that may ask about requests could send this header: name a group",
        ),
        (format!("{local}\ngroup = \"proxy\""), TOKEN, "only a Unix socket has a group"),
        (format!("{local}\nproxies = [\"10.0.0.1\"]"), TOKEN, "a proxy tells users by a header: add `user-header`"),
        (
            format!("{local}\nuser-header = \"x-user\"\nproxies = [\"0.0.0.0/0\"]"),
            USER,
            "any program of this host could send the header",
        ),
        (
            format!("{local}\nuser-header = \"x-user\"\nproxies = [\"10.0.0.1\", \"127.0.0.2\"]"),
            USER,
            "any program of this host could send the header",
        ),
        (
            format!("{local}\nuser-header = \"x-user\"\nproxies = [\"127.0.0.128/25\"]"),
            USER,
            "any program of this host could send the header",
        ),
        (local.to_owned(), USER, "the tables [[user]] need the header of a proxy"),
        (
            format!("{local}\nuser-header = \"Cookie\"\nproxies = [\"10.0.0.1\"]"),
            USER,
            "this header has another meaning",
        ),
        (format!("{local}\nuser-header = \"a b\""), TOKEN, "expected the name of a header"),
    ] {
        assert!(of(&console, more).starts_with(expected), "{console} {more}: {}", of(&console, more));
    }
    let unix = "listen = \"unix:/run/c\"\nuser-header = \"x-user\"\ngroup = \"proxy\"";
    assert_eq!(of(unix, USER), "");
    let twice = format!("{USER}{USER}");
    assert!(of(unix, &twice).contains("is there twice"));
    let alone = requests::parse(&format!("[serve]\nhttp = \"unix:/run/a\"\n{USER}")).unwrap_err();
    assert!(alone[0].message.starts_with("only the console knows users"), "{alone:?}");
}
