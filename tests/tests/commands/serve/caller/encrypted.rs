//! The client in the library and the command `rules`, over encrypted connections with tokens.

use std::path::PathBuf;

use ratelimit_client::caller::{
    Authority as Trusted, Caller, ConnectError, EncryptionError, Server as Named, Undecided,
};
use ratelimit_tests::{Authority, Ratelimit, Sandbox, Signed, VICTIM_IPV4};
use rustix::process::Signal;

use super::{PATIENT, block_on, by_tcp, question};
use crate::serve::access::{Open, PORT, TOKENS};

const IN_FORCE: &str = "ratelimit: 1 rule in force";

/// Asks the server at this address, which one of this authority must have signed.
fn ask(sandbox: &Sandbox, address: &str, authority: &Authority, token: Option<&str>) -> Result<Option<u64>, Undecided> {
    let mut server = Named::new(address.parse().unwrap());
    if address.starts_with("https:") {
        server = server.with_authority(Trusted::of_pem(authority.pem.as_bytes()).unwrap());
    }
    if let Some(token) = token {
        server = server.with_token(token.parse().unwrap());
    }
    let caller = Caller::new([server], PATIENT).unwrap();
    let answer = sandbox.victim(|| block_on(async { caller.check(&question()).await }));
    assert!(answer.is_allowed);
    answer.undecided.map_or(Ok(answer.remaining), Err)
}

/// Returns why there was no encrypted connection. None if there was one, or another problem.
fn problem(asked: Result<Option<u64>, Undecided>) -> Option<EncryptionError> {
    match asked {
        Err(Undecided::Connect(ConnectError::Encryption { error, .. })) => Some(error),
        _ => None,
    }
}

#[test]
fn a_caller_with_the_authority_and_a_token_asks_and_each_problem_has_its_advice() {
    let sandbox = Sandbox::new();
    let [authority, other] = ["authority", "other"].map(Authority::new);
    let mut server = Open::start(&sandbox, &authority);
    let address = format!("https://{VICTIM_IPV4}:{PORT}");
    let [gateway, _, team] = TOKENS.map(|(_, text, _)| Some(text));

    assert_eq!(ask(&sandbox, &address, &authority, gateway), Ok(Some(2)));
    for (token, expected) in [
        (None, "this call needs a token"),
        (Some("unknown"), "the token is unknown"),
        (
            team,
            "the token team-a may not ask about requests: the operator of the server can give it the scope check, in its [[token]]",
        ),
    ] {
        let error = ask(&sandbox, &address, &authority, token).unwrap_err();
        assert!(matches!(error, Undecided::Denied { .. }) && error.to_string().contains(expected), "{error}");
    }
    assert_eq!(problem(ask(&sandbox, &address, &other, gateway)), Some(EncryptionError::Untrusted));

    let plain = format!("http://{VICTIM_IPV4}:{PORT}");
    let error = ask(&sandbox, &plain, &authority, None).unwrap_err();
    assert!(matches!(error, Undecided::Connection { .. }), "{error:?}");

    let mut show = |signed: Signed| {
        let _: [PathBuf; 2] =
            [server.folder.add("cert.pem", &signed.certificate), server.folder.add("key.pem", &signed.key)];
        server.daemon.process.signal(Signal::HUP);
        let line = server.daemon.line();
        if line == IN_FORCE {
            return String::new();
        }
        assert_eq!(server.daemon.line(), IN_FORCE);
        line
    };
    assert_eq!(show(authority.sign(&["limits.example", "192.0.2.77"])), "");
    let error = problem(ask(&sandbox, &address, &authority, gateway));
    assert_eq!(error, Some(EncryptionError::Name(" (it has limits.example, 192.0.2.77)".to_owned())));
    let name = VICTIM_IPV4.to_string();
    for (signed, warning, expected) in [
        (authority.sign_until(&[&name], 2_020), "the certificate ended at 2020-12-31", EncryptionError::Ended),
        (authority.sign_authority(&[&name]), "the certificate is that of an authority", EncryptionError::Authority),
        (authority.sign(&[]), "the certificate has no name or address as subjectAltName", EncryptionError::NoName),
    ] {
        let line = show(signed);
        assert!(line.contains(warning) && line.ends_with(", then send SIGHUP"), "{line}");
        assert_eq!(problem(ask(&sandbox, &address, &authority, gateway)), Some(expected));
    }
}

#[test]
fn a_caller_that_encrypts_learns_that_a_server_does_not() {
    let sandbox = Sandbox::new();
    let _server = by_tcp(&sandbox);
    let asked = ask(&sandbox, "https://127.0.0.1:8080", &Authority::new("authority"), None);
    assert_eq!(problem(asked), Some(EncryptionError::Plain));
}

#[test]
fn a_command_says_in_one_line_why_it_cannot_connect() {
    let sandbox = Sandbox::new();
    let authority = Authority::new("authority");
    let server = Open::start(&sandbox, &authority);
    let right = server.folder.add("right.pem", &authority.pem).display().to_string();
    let wrong = server.folder.add("wrong.pem", &Authority::new("other").pem).display().to_string();
    let nonsense = server.folder.add("nonsense.pem", "nonsense").display().to_string();
    let ratelimit = Ratelimit::new(&sandbox);
    for (address, ca, expected) in [
        (
            "https://VICTIM:8443",
            &*wrong,
            "ratelimit: no encrypted connection to https://VICTIM:8443: its certificate is of no trusted authority: name \
             its authority (--ca, or `with_authority` in a program)",
        ),
        (
            "https://VICTIM:8443",
            &nonsense,
            "nonsense.pem: expected a certificate in PEM, which begins with -----BEGIN CERTIFICATE-----",
        ),
        ("http://127.0.0.1:8443", &right, "the connection is not encrypted, so no authority is needed"),
        ("http://VICTIM:8443", &right, "the connection is not encrypted, so others could read the token: use https://"),
        ("https://VICTIM:8444", &right, "cannot connect to https://VICTIM:8444: Connection refused"),
    ] {
        let [address, expected] = [address, expected].map(|text| text.replace("VICTIM", &VICTIM_IPV4.to_string()));
        let error = ratelimit.fails(&format!("rules list --server {address} --ca {ca}"));
        assert!(error.contains(&expected), "{error}");
    }
    let url = format!("https://{VICTIM_IPV4}:{PORT}");
    let error = ratelimit.fails(&format!("rules list --server {url} --ca {right}"));
    assert!(error.ends_with("(give --token-file FILE)"), "{error}");
    let token = server.folder.add("token", TOKENS[2].1).display().to_string();
    let names = ratelimit.ok(&format!("rules list --server {url} --ca {right} --token-file {token}"));
    assert_eq!(names, "name  version  rule\n");
}
