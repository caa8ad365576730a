//! The tables `[console]` and `[[user]]`: pages for people, and what those may do whom a proxy has signed in.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    str::FromStr,
};

use ratelimit_base::{
    tables::{
        options,
        table::{Table, Value},
    },
    text::{path, prefix::Prefix},
};

use super::{
    encryption::{CERTIFICATE, KEY},
    listen::{Listen, Listens},
    serve::open_to_others,
    tokens::{Scope, User},
};

/// The most users, and the most prefixes of proxies.
const MOST: usize = 256;
/// The longest name of a user, in bytes.
const NAME: usize = 128;
/// Headers that no proxy can use for the name of a user.
const TAKEN: [&str; 4] = ["authorization", "cookie", "host", "content-type"];

/// Pages for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Console {
    /// Where browsers and proxies connect.
    pub listen: Listen,
    /// The group that may connect to a Unix socket, by name or number.
    pub group: Option<String>,
    /// The header with the name of a user that a proxy has signed in.
    pub header: Option<String>,
    /// The addresses of proxies whose header counts. On a Unix socket, it counts always.
    pub proxies: Vec<Prefix>,
    /// The socket of the daemon that shows packets.
    pub packets: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct ConsoleOptions {
    #[arg(long)]
    listen: Listen,
    #[arg(long)]
    group: Option<String>,
    #[arg(long)]
    user_header: Option<Header>,
    #[arg(long)]
    proxies: Vec<Prefix>,
    #[arg(long, value_parser = path::absolute)]
    packets: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct UserOptions {
    #[arg(long)]
    name: UserName,
    #[arg(long, required = true)]
    scope: Vec<Scope>,
}

#[derive(Debug, Clone)]
struct Header(String);

impl FromStr for Header {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.to_ascii_lowercase();
        let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=NAME).contains(&name.len()) || !name.bytes().all(is_good) {
            return Err("expected the name of a header, such as x-remote-user");
        }
        if TAKEN.contains(&&*name) {
            Err("this header has another meaning: choose another one")
        } else {
            Ok(Self(name))
        }
    }
}

#[derive(Debug, Clone)]
struct UserName(String);

impl FromStr for UserName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_good = (1..=NAME).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_good.then(|| Self(text.to_owned())).ok_or("expected 1 to 128 visible ASCII characters without spaces")
    }
}

/// Reads the tables from the top level of a file, after `[serve]` and `[[token]]`.
pub(super) fn read(top: &Table<'_>, (listens, has_serve): (&Listens, bool)) -> (Option<Console>, Vec<User>) {
    let users = users(top);
    (console(top, listens, has_serve), users)
}

fn console(top: &Table<'_>, listens: &Listens, has_serve: bool) -> Option<Console> {
    let has_users = top.get("user").is_some();
    let Some(table) = top.get("console").and_then(Value::table) else {
        if let (Some(value), None) = (top.get("user"), top.get("console")) {
            value.wrong("only the console knows users: add a table [console] with `user-header`");
        }
        return None;
    };
    let ConsoleOptions { listen, group, user_header, proxies, packets } = options::read(&table, &[])?;
    let header = user_header.map(|Header(name)| name);
    let wrong = |key: &str, message: String| {
        table.get(key).map_or_else(|| table.wrong(&message), |value| value.wrong(&message));
    };
    let serve = if has_serve { top.get("serve").and_then(Value::table) } else { None };
    let has_certificate = serve.is_some_and(|serve| {
        let has = |key: &str| serve.get(key).is_some();
        has(CERTIFICATE) || has(KEY)
    });
    let can_sign_in = top.get("token").is_some() || has_users;
    if let Some(problem) = listen.is_beyond_host().then(|| open_to_others(has_certificate, can_sign_in)).flatten() {
        wrong("listen", problem);
    } else if !can_sign_in {
        table.wrong("nobody could sign in: add a table [[token]] with a scope for rules, such as rules:read");
    }
    let others = [&listens.http, &listens.grpc, &listens.metrics];
    if others.into_iter().flatten().any(|other| other.overlaps(&listen)) {
        wrong("listen", "a key of [serve] has this address: choose another one".to_owned());
    }
    match (&header, &listen) {
        (Some(_), Listen::Tcp(_)) if proxies.is_empty() => {
            let problem = "any client could send this header: name the addresses of the proxy in `proxies`";
            wrong("user-header", problem.to_owned());
        }
        (Some(_), Listen::Unix(_)) if group.is_none() => {
            let problem = "any program that may ask about requests could send this header: name a group of the proxy \
                           alone in `group`";
            wrong("user-header", problem.to_owned());
        }
        (None, _) if !proxies.is_empty() => {
            wrong("proxies", "a proxy tells users by a header: add `user-header`".to_owned());
        }
        (None, _) if has_users => {
            wrong("user-header", "the tables [[user]] need the header of a proxy: add `user-header`".to_owned());
        }
        _ => {}
    }
    if proxies.iter().any(has_loopback) {
        let problem =
            "any program of this host could send the header: listen on a Unix socket for a proxy of this host";
        wrong("proxies", problem.to_owned());
    }
    if group.is_some() && matches!(listen, Listen::Tcp(_)) {
        wrong("group", "only a Unix socket has a group: listen on unix:/PATH, or leave `group` out".to_owned());
    }
    if proxies.len() > MOST {
        wrong("proxies", format!("more than {MOST} prefixes: write wider ones"));
    }
    Some(Console { listen, group, header, proxies, packets })
}

/// Returns whether a prefix has an address of loopback.
fn has_loopback(prefix: &Prefix) -> bool {
    let first = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].map(Prefix::host);
    prefix.address().to_canonical().is_loopback() || first.iter().any(|address| prefix.contains(address))
}

fn users(top: &Table<'_>) -> Vec<User> {
    let mut users: Vec<User> = Vec::new();
    for table in top.get("user").map(|value| value.tables("user")).unwrap_or_default() {
        let Some(UserOptions { name: UserName(name), scope }) = options::read(&table, &[]) else { continue };
        if users.iter().any(|other| other.name == name) {
            table.wrong(format!("{name} is there twice: choose another name"));
        } else if users.len() == MOST {
            table.wrong(format!("at most {MOST} users are possible"));
        } else {
            users.push(User { name, scopes: scope });
        }
    }
    users
}
