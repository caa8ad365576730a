//! Who a visitor is, and whether a form is one of this session.

use std::{net::IpAddr, time::Instant};

use axum::http::{
    HeaderMap,
    header::{COOKIE, HOST, ORIGIN},
    request::Parts,
};
use ratelimit_base::{
    notify::journal::{self, Level},
    text::prefix::Prefix,
};
use ring::hmac::{self, HMAC_SHA256};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use super::{
    own::is_own,
    sessions::{Sessions, hex},
};
use crate::{
    config::{Listen, console::Console as Settings},
    serve::{
        access::{Caller, Need, Peer},
        service::Service,
    },
};

/// The header of calls that a page makes by itself.
pub(in crate::serve::console) const LIVE: &str = "x-live";
/// The query with which a page without its script reads itself again.
pub(in crate::serve::console) const AGAIN: &str = "live=1";
/// The header in which browsers tell who has made a call.
const SITE: &str = "sec-fetch-site";

/// Tells visitors apart.
pub(in crate::serve::console) struct Gate {
    settings: Settings,
    is_encrypted: bool,
    /// Signs what forms carry.
    key: hmac::Key,
    pub(in crate::serve::console) sessions: Sessions,
}

/// A visitor who has signed in.
pub(in crate::serve::console) struct Visitor {
    pub(in crate::serve::console) caller: Caller,
    /// Whether there is something to see of packets.
    pub(in crate::serve::console) sees_packets: bool,
    /// Whether the visitor may change rules for packets.
    pub(in crate::serve::console) changes_packets: bool,
    /// Whether a proxy has signed the visitor in.
    pub(in crate::serve::console) is_by_proxy: bool,
    /// What the forms of this visitor carry.
    pub(in crate::serve::console) csrf: String,
}

impl Gate {
    pub(in crate::serve::console) fn new(settings: Settings, is_encrypted: bool) -> anyhow::Result<Self> {
        let mut key = [0; 32];
        getrandom(&mut key, GetRandomFlags::empty())?;
        let key = hmac::Key::new(HMAC_SHA256, &key);
        if let Some(proxy) = settings.proxies.first()
            && let Err(error) = is_own(proxy.address())
        {
            let advice = "a unit needs AF_NETLINK in RestrictAddressFamilies";
            let text = format!("the kernel does not tell the addresses of this host: {error}: {advice}");
            journal::say(Level::Warning, &format!("console: no header of a proxy counts: {text}"));
        }
        Ok(Self { settings, is_encrypted, key, sessions: Sessions::default() })
    }

    /// Returns whether the server itself encrypts.
    pub(in crate::serve::console) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the port at which visitors connect. None for a Unix socket.
    pub(in crate::serve::console) fn port(&self) -> Option<u16> {
        match self.settings.listen {
            Listen::Tcp(address) => Some(address.port()),
            Listen::Unix(_) => None,
        }
    }

    /// Returns the name of the cookie, and its attributes. Without encryption on the whole way, browsers refuse the prefix.
    /// The name has the port, because all ports of a host share their cookies.
    pub(in crate::serve::console) fn cookie(&self) -> (String, &'static str) {
        let name = match self.settings.listen {
            Listen::Tcp(address) => format!("ratelimit-{}", address.port()),
            Listen::Unix(_) => "ratelimit".to_owned(),
        };
        let is_behind_proxy = matches!(self.settings.listen, Listen::Unix(_)) || !self.settings.proxies.is_empty();
        match self.is_encrypted || is_behind_proxy {
            true => (format!("__Host-{name}"), "Path=/; Secure; HttpOnly; SameSite=Strict"),
            false => (name, "Path=/; HttpOnly; SameSite=Strict"),
        }
    }

    /// Returns the name of the session of a call.
    pub(in crate::serve::console) fn session<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let (name, _) = self.cookie();
        let texts = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut each = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        each.find(|(this, _)| *this == name).map(|(_, value)| value)
    }

    /// Returns the visitor of a call, who has signed in here or at the proxy, and may see the pages.
    pub(in crate::serve::console) fn visitor(&self, service: &Service, head: &Parts) -> Option<Visitor> {
        self.signed_in(service, head).filter(|visitor| visitor.caller.may(Need::Visit))
    }

    fn signed_in(&self, service: &Service, head: &Parts) -> Option<Visitor> {
        if let Some(name) = self.of_proxy(head) {
            let caller = service.of_tokens(|tokens| tokens.user(name))?;
            let csrf = self.sign(caller.name());
            return Some(self.seeing(caller, true, csrf));
        }
        let session = self.session(&head.headers)?;
        let is_live = head.headers.contains_key(LIVE) || head.uri.query() == Some(AGAIN);
        let hash = self.sessions.find(session, is_live, Instant::now())?;
        let caller = service.of_tokens(|tokens| tokens.of_hash(hash))?;
        Some(self.seeing(caller, false, self.sign(session)))
    }

    fn seeing(&self, caller: Caller, is_by_proxy: bool, csrf: String) -> Visitor {
        let has_packets = self.settings.packets.is_some();
        let [sees_packets, changes_packets] =
            [Need::Packets, Need::ChangePackets].map(|need| has_packets && caller.may(need));
        Visitor { caller, sees_packets, changes_packets, is_by_proxy, csrf }
    }

    /// Returns the name of the user that the proxy has signed in.
    pub(in crate::serve::console) fn of_proxy<'a>(&self, head: &'a Parts) -> Option<&'a [u8]> {
        let header = self.settings.header.as_ref()?;
        let mut values = head.headers.get_all(header).into_iter();
        // A second value could be one of the client that the proxy passes on.
        let (value, None) = (values.next()?, values.next()) else { return None };
        // Only now, because the kernel is asked.
        let is_trusted = || match head.extensions.get::<Peer>() {
            Some(Peer(ip)) => {
                let address = Prefix::host(*ip);
                self.settings.proxies.iter().any(|proxy| proxy.contains(&address)) && !may_be_own(*ip)
            }
            None => true,
        };
        (!value.is_empty() && is_trusted()).then(|| value.as_bytes())
    }

    fn sign(&self, text: &str) -> String {
        hex(hmac::sign(&self.key, text.as_bytes()).as_ref())
    }

    /// Returns whether a form carries what the forms of this visitor carry.
    pub(in crate::serve::console) fn is_own(&self, visitor: &Visitor, csrf: &str) -> bool {
        subtle::ConstantTimeEq::ct_eq(visitor.csrf.as_bytes(), csrf.as_bytes()).into()
    }
}

/// Returns whether an address may be one of this host, from which any local program can send a header.
fn may_be_own(address: IpAddr) -> bool {
    on_worker(|| is_own(address)).unwrap_or(true)
}

/// Does what may block, while other tasks of this worker go on elsewhere.
fn on_worker<T>(work: impl FnOnce() -> T) -> T {
    let is_worker = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_worker { block_in_place(work) } else { work() }
}

/// Returns whether another site has made a call. Browsers that do not tell the site tell at least the origin.
pub(in crate::serve::console) fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SITE) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    origin.is_none() || origin != host
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, Request};

    use super::*;

    fn head(headers: &[(&'static str, &'static str)], peer: Option<&str>) -> Parts {
        let (mut head, ()) = Request::new(()).into_parts();
        for (name, value) in headers {
            head.headers.append(*name, HeaderValue::from_static(value));
        }
        if let Some(peer) = peer {
            head.extensions.insert(Peer(peer.parse::<IpAddr>().unwrap()));
        }
        head
    }

    #[test]
    fn only_the_proxy_names_a_user_and_only_once() {
        let gate = |listen: &str, proxies: &[&str]| {
            let proxies = proxies.iter().map(|proxy| proxy.parse().unwrap()).collect();
            let header = Some("x-remote-user".to_owned());
            Gate::new(Settings { listen: listen.parse().unwrap(), group: None, header, proxies, packets: None }, false)
                .unwrap()
        };
        let alice = [("x-remote-user", "alice")];
        let (tcp, unix) = (gate("10.0.0.1:80", &["10.0.0.0/24", "fd00::1"]), gate("unix:/run/c", &[]));
        for (peer, is_trusted) in [("10.0.0.9", true), ("10.0.1.9", false), ("fd00::1", true), ("fd00::2", false)] {
            assert_eq!(tcp.of_proxy(&head(&alice, Some(peer))).is_some(), is_trusted, "{peer}");
        }
        // Without one header of the proxy, the kernel is not asked.
        let asked = || super::super::own::ASKED.get();
        let before = asked();
        for headers in [&[][..], &[("x-remote-user", "")], &[alice[0], alice[0]], &[("cookie", "a=b")]] {
            assert_eq!(tcp.of_proxy(&head(headers, Some("10.0.0.9"))), None);
        }
        assert_eq!((asked() - before, tcp.of_proxy(&head(&alice, Some("10.0.0.9"))).is_some()), (0, true));
        assert_eq!(asked() - before, 1);
        assert_eq!(unix.of_proxy(&head(&alice, None)), Some(&b"alice"[..]));
        assert_eq!(unix.of_proxy(&head(&[("x-remote-user", "")], None)), None);
        assert_eq!(unix.of_proxy(&head(&[("x-remote-user", "alice"), ("x-remote-user", "bob")], None)), None);
        let port = [("cookie", "ratelimit-81=other; ratelimit-80=own; ratelimit=older")];
        assert_eq!(gate("127.0.0.1:80", &[]).session(&head(&port, None).headers), Some("own"));
        let cookies = [("cookie", "a=b; __Host-ratelimit=c"), ("cookie", "ratelimit=d")];
        assert_eq!(unix.session(&head(&cookies, None).headers), Some("c"));
    }

    #[test]
    fn a_header_from_an_address_of_this_host_names_nobody() {
        // The file refuses loopback addresses. Others of this host are not known there.
        let (header, listen) = (Some("x-remote-user".to_owned()), "10.0.0.1:80".parse().unwrap());
        let proxies = vec!["127.0.0.0/8".parse().unwrap()];
        let gate = Gate::new(Settings { listen, group: None, header, proxies, packets: None }, false).unwrap();
        assert_eq!(gate.of_proxy(&head(&[("x-remote-user", "alice")], Some("127.0.0.1"))), None);
    }

    #[test]
    fn a_form_of_another_site_is_foreign() {
        let is = |headers: &[(&'static str, &'static str)]| is_foreign(&head(headers, None).headers);
        assert!(!is(&[]));
        assert!(!is(&[("sec-fetch-site", "same-origin"), ("origin", "null"), ("host", "a")]));
        for site in ["cross-site", "same-site", "other"] {
            assert!(is(&[("sec-fetch-site", site), ("origin", "https://a"), ("host", "a")]), "{site}");
        }
        assert!(!is(&[("origin", "https://a:8443"), ("host", "a:8443")]));
        for origin in ["https://b", "https://a", "null", ""] {
            assert!(is(&[("origin", origin), ("host", "a:8443")]), "{origin}");
        }
    }
}
