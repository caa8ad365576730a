//! Encrypted connections to a real Redis server, and certificates that do not fit.

mod hosts;

use std::time::Duration;

use ratelimit_base::certificates::Certificates;
use ratelimit_fleet::{
    address::{Address, Kind},
    engine::Engine,
    error::Error,
};
use ratelimit_tests::{Authority, Encryption, Redis, Sandbox, Signed, VICTIM_IPV4};

use crate::engine::{message, report, try_at};

/// A cold program reads the certificates of the system within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a host trusts, and what it shows.
fn certificates(trusted: &Authority, shown: Option<&Signed>) -> Certificates {
    let trusting = Certificates::default().trusting(trusted.pem.clone().into()).unwrap();
    match shown {
        Some(Signed { certificate, key }) => trusting.showing(certificate.clone().into(), key.clone().into()).unwrap(),
        None => trusting,
    }
}

async fn connect(url: &str, certificates: &Certificates) -> Result<Engine, Error> {
    let address = Address::new(&[url.to_owned()], Kind::Single, None, None)?.with(certificates.clone())?;
    Engine::connect(&address, PATIENCE).await
}

/// Returns why the server with these files gives no answer.
fn refusal(files: &Encryption, certificates: &Certificates) -> String {
    let sandbox = Sandbox::new();
    let _redis = start(&sandbox, files, &[]);
    Redis::at_the_peer(&sandbox, async || {
        let outcome = match connect(&url(), certificates).await {
            Ok(engine) => report(&engine, &[message("192.0.2.1", 10.0, 10.0)]).await,
            Err(error) => Err(error),
        };
        outcome.unwrap_err().to_string()
    })
}

fn start(sandbox: &Sandbox, files: &Encryption, more: &[&str]) -> Redis {
    let options = files.server(Redis::PORT, more);
    Redis::start(sandbox, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

fn url() -> String {
    format!("rediss://{VICTIM_IPV4}:{}", Redis::PORT)
}

#[test]
fn a_host_with_a_certificate_reports_to_a_server_that_asks_for_one() {
    let authority = Authority::new("authority");
    let files = Encryption::new(&authority.sign(&[&VICTIM_IPV4.to_string()]), &authority.pem);
    let sandbox = Sandbox::new();
    let _redis = start(&sandbox, &files, &["--requirepass", "secret"]);
    Redis::at_the_peer(&sandbox, async || {
        let own = certificates(&authority, Some(&authority.sign(&["host"])));
        let url = format!("rediss://:secret@{VICTIM_IPV4}");
        let engine = connect(&url, &own).await.unwrap();
        let messages = [message("192.0.2.1", 3_000.0, 3_000.0)];
        assert_eq!(report(&engine, &messages).await.unwrap()[0].share, Some(1.0));
    });
}

#[test]
fn a_certificate_that_does_not_fit_is_refused_with_the_reason() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    // An authority whose key was replaced keeps its name.
    let replaced = Authority::new("authority");
    let name = VICTIM_IPV4.to_string();
    let own = certificates(&authority, Some(&authority.sign(&["host"])));
    let not_signed = "its certificate is not signed by an authority that this host trusts";
    for (signed, trusted, expected) in [
        (authority.sign(&[&name]), &other, not_signed),
        (authority.sign(&[&name]), &replaced, not_signed),
        (authority.sign(&["192.0.2.1", "redis.example"]), &authority, "its certificate is only valid for"),
        (authority.sign_until(&[&name], 2_001), &authority, "its certificate has expired"),
    ] {
        let files = Encryption::new(&signed, &authority.pem);
        let own = own.clone().trusting(trusted.pem.clone().into()).unwrap();
        let reason = refusal(&files, &own);
        assert!(reason.starts_with(expected), "{reason}");
    }
    // The system trusts no authority of a test.
    let files = Encryption::new(&authority.sign(&[&name]), &authority.pem);
    assert_eq!(refusal(&files, &Certificates::default()), not_signed);
}

#[test]
fn a_server_that_refuses_the_certificate_of_a_host_is_named() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let files = Encryption::new(&authority.sign(&[&VICTIM_IPV4.to_string()]), &authority.pem);
    for (shown, expected) in [
        (None, "it asks for the certificate of this host"),
        (Some(other.sign(&["host"])), "it does not trust the certificate of this host"),
        (Some(authority.sign_until(&["host"], 2_001)), "it says that the certificate of this host has expired"),
    ] {
        let reason = refusal(&files, &certificates(&authority, shown.as_ref()));
        assert_eq!(reason, expected);
    }
}

#[test]
fn a_server_that_encrypts_and_a_host_that_does_not_fail_in_one_line() {
    let authority = Authority::new("authority");
    let files = Encryption::new(&authority.sign(&[&VICTIM_IPV4.to_string()]), &authority.pem);
    let sandbox = Sandbox::new();
    let _redis = start(&sandbox, &files, &["--port", "6380"]);
    Redis::at_the_peer(&sandbox, async || {
        let plain = try_at(&Redis::url(), &[message("192.0.2.1", 10.0, 10.0)]).await.unwrap_err().to_string();
        let url = format!("rediss://{VICTIM_IPV4}:6380");
        let encrypted = connect(&url, &certificates(&authority, None)).await.err().unwrap().to_string();
        for error in [plain, encrypted] {
            assert!(!error.contains(char::is_control) && error.len() < 200, "{error:?}");
            println!("{error}");
        }
    });
}
