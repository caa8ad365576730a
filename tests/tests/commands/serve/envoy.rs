//! `ratelimit serve` as Envoy's rate limit service, asked by the client that is generated from Envoy's definition.

use std::{io::Read as _, net::TcpStream};

use axum::http::uri::PathAndQuery;
use envoy_types::pb::{
    envoy::{
        extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse,
            rate_limit_response::{Code, DescriptorStatus},
            rate_limit_service_client::RateLimitServiceClient,
        },
    },
    google::protobuf::{StringValue, UInt32Value, UInt64Value},
};
use ratelimit_tests::{Authority, Daemon, Folder, PATIENCE, Ratelimit, Sandbox, VICTIM_IPV4};
use rustix::process::Signal;
use tonic::{
    Code as StatusCode, Request, Status,
    transport::{Certificate, Channel, ClientTlsConfig},
};
use tonic_prost::ProstCodec;

use super::token;

const RULES: &str = "
[serve]
grpc = \"127.0.0.1:8081\"
attributes = [\"generic_key\"]
[[check]]
name = \"login\"
match = { domain = \"edge\", path = \"/login\" }
key = \"ip\"
limits = \"2/m\"
[[check]]
name = \"all\"
match = { generic_key = \"all\" }
limits = \"100/h\"
[[check]]
name = \"watched\"
match = { generic_key = \"watched\" }
limits = \"1/h\"
shadow = true
";

/// Runs calls beside a server with these rules.
fn with_server(calls: impl AsyncFnOnce(RateLimitServiceClient<Channel>) + Send) {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    folder.write(RULES);
    let command = Ratelimit::new(&sandbox).command(&format!("serve -c {}", folder.file().display()));
    let mut daemon = Daemon::by(&sandbox, command);
    assert_eq!(daemon.line(), "ratelimit: serving gRPC on http://127.0.0.1:8081 by 3 rules, 1 of them in shadow");
    sandbox.victim(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            calls(RateLimitServiceClient::connect("http://127.0.0.1:8081").await.unwrap()).await;
        });
    });
    daemon.process.signal(Signal::TERM);
    assert!(daemon.process.wait().status.success());
}

pub(super) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

pub(super) fn request(
    descriptors: impl IntoIterator<Item = RateLimitDescriptor>,
    hits_addend: u32,
) -> RateLimitRequest {
    RateLimitRequest { domain: "edge".to_owned(), descriptors: descriptors.into_iter().collect(), hits_addend }
}

async fn ask(
    client: &mut RateLimitServiceClient<Channel>,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    Ok(client.should_rate_limit(request).await?.into_inner())
}

/// Returns the code of the answer, and those of its descriptors.
fn codes(answer: &RateLimitResponse) -> (Code, Vec<Code>) {
    let statuses = answer.statuses.iter().map(DescriptorStatus::code).collect();
    (answer.overall_code(), statuses)
}

#[test]
fn envoy_gets_the_status_of_each_descriptor_and_a_refused_call_is_charged_to_none() {
    with_server(async |mut client| {
        let login = || descriptor(&[("remote_address", "192.0.2.1"), ("path", "/login")]);
        let all = || descriptor(&[("generic_key", "all")]);
        let answer = ask(&mut client, request([login(), all()], 0)).await.unwrap();
        assert_eq!(codes(&answer), (Code::Ok, vec![Code::Ok, Code::Ok]));
        let limit = answer.statuses[0].current_limit.as_ref().unwrap();
        assert_eq!((limit.name.as_str(), limit.requests_per_unit, limit.unit().as_str_name()), ("login", 2, "MINUTE"));
        assert_eq!([answer.statuses[0].limit_remaining, answer.statuses[1].limit_remaining], [1, 99]);
        let reset = answer.statuses[0].duration_until_reset.as_ref().unwrap();
        assert!((20..=60).contains(&reset.seconds), "{reset:?}");
        // Two hits are one too many, so the other descriptor is not charged either, and says so.
        for descriptors in [[all(), login()], [login(), all()]] {
            let answer = ask(&mut client, request(descriptors, 2)).await.unwrap();
            assert_eq!(answer.overall_code(), Code::OverLimit);
            let retry_after = answer.response_headers_to_add.iter().find(|header| header.key == "retry-after").unwrap();
            assert!((1..=66).contains(&retry_after.value.parse::<u64>().unwrap()), "{retry_after:?}");
            assert_eq!(answer.statuses.len(), 2);
        }
        let answer = ask(&mut client, request([all()], 0)).await.unwrap();
        assert_eq!(answer.statuses[0].limit_remaining, 98);
    });
}

#[test]
fn hits_shadow_rules_and_unknown_descriptors_are_those_of_the_protocol() {
    with_server(async |mut client| {
        let hits = |count| RateLimitDescriptor {
            hits_addend: Some(UInt64Value { value: count }),
            ..descriptor(&[("generic_key", "all")])
        };
        let answer = ask(&mut client, request([hits(40)], 7)).await.unwrap();
        assert_eq!(answer.statuses[0].limit_remaining, 60);
        let answer = ask(&mut client, request([hits(u64::MAX)], 0)).await.unwrap();
        assert_eq!(codes(&answer), (Code::OverLimit, vec![Code::OverLimit]));
        for _ in 0..2 {
            let watched = request([descriptor(&[("generic_key", "watched")])], 0);
            assert_eq!(codes(&ask(&mut client, watched).await.unwrap()), (Code::Ok, vec![Code::Ok]));
        }
        let unknown = ask(&mut client, request([descriptor(&[("x", "y")])], 0)).await.unwrap();
        assert_eq!((codes(&unknown), unknown.statuses[0].current_limit.clone()), ((Code::Ok, vec![Code::Ok]), None));
    });
}

#[test]
fn calls_that_make_no_sense_get_a_status_with_one_clear_line() {
    with_server(async |mut client| {
        let error = ask(&mut client, request([], 0)).await.unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (StatusCode::InvalidArgument, "requests: expected 1 to 100 of them")
        );
        let huge = request([descriptor(&[("user", &"x".repeat(1_100_000))])], 0);
        // However many there are, the connection goes on: other clients use it too.
        for _ in 0..1_500 {
            assert_eq!(ask(&mut client, huge.clone()).await.unwrap_err().code(), StatusCode::OutOfRange);
        }
        let answer = ask(&mut client, request([descriptor(&[("generic_key", "all")])], 0)).await.unwrap();
        assert_eq!(answer.statuses[0].limit_remaining, 99);
    });
}

/// A message with a text that is no Unicode, which the generated client cannot write.
#[derive(Clone, PartialEq, prost::Message)]
struct Raw {
    #[prost(bytes = "vec", tag = "2")]
    descriptor: Vec<u8>,
}

#[test]
fn an_address_that_cannot_be_read_and_a_text_that_is_no_unicode_evade_no_other_rule() {
    with_server(async |mut client| {
        let all = |address: &str| request([descriptor(&[("generic_key", "all"), ("remote_address", address)])], 0);
        for (address, remaining) in [("unknown", 99), ("k\u{1}", 98), ("192.0.2.1:80", 97)] {
            let answer = ask(&mut client, all(address)).await.unwrap();
            assert_eq!(answer.statuses[0].limit_remaining, remaining, "{address}");
        }
        // A port makes no other client.
        let login =
            |address: &str, path: &str| request([descriptor(&[("remote_address", address), ("path", path)])], 0);
        for (address, path, code) in [
            ("192.0.2.1", "/login", Code::Ok),
            ("192.0.2.1:80", "/%6cogin", Code::Ok),
            ("[::ffff:192.0.2.1]:81", "//login;v=1#f", Code::OverLimit),
        ] {
            assert_eq!(ask(&mut client, login(address, path)).await.unwrap().overall_code(), code, "{address} {path}");
        }
        let entry = |key: &[u8], value: &[u8]| {
            let pair = [&[0x0a, key.len() as u8], key, &[0x12, value.len() as u8], value].concat();
            [&[0x0a, pair.len() as u8][..], &pair].concat()
        };
        let descriptor = [entry(b"generic_key", b"all"), entry(b"user", b"k\xff")].concat();
        let mut grpc = tonic::client::Grpc::new(Channel::from_static("http://127.0.0.1:8081").connect().await.unwrap());
        grpc.ready().await.unwrap();
        let path = PathAndQuery::from_static("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
        let codec = ProstCodec::<Raw, RateLimitResponse>::default();
        let answer = grpc.unary(Request::new(Raw { descriptor }), path, codec).await.unwrap().into_inner();
        assert_eq!(answer.statuses[0].limit_remaining, 96);
    });
}

#[test]
fn a_connection_of_http_2_without_a_call_ends() {
    with_server(async |_| {
        let mut silent = TcpStream::connect("127.0.0.1:8081").unwrap();
        silent.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut received = Vec::new();
        // The server ends it: otherwise, reading fails at its own time limit.
        assert!(silent.read_to_end(&mut received).is_ok());
    });
}

#[test]
fn envoy_on_another_machine_needs_encryption_and_a_token() {
    let (sandbox, folder, authority) = (Sandbox::new(), Folder::new(), Authority::new("authority"));
    let signed = authority.sign(&[&VICTIM_IPV4.to_string()]);
    let certificate = folder.add("cert.pem", &signed.certificate);
    let key = folder.add("key.pem", &signed.key);
    let tokens = token("envoy", "secret", "\"check\"") + &token("monitor", "other", "\"metrics\"");
    folder.write(&format!(
        "[serve]\ngrpc = \"{VICTIM_IPV4}:8443\"\ntls-cert = \"{}\"\ntls-key = \"{}\"\n{tokens}\
         [[check]]\nname = \"all\"\nlimits = \"100/h\"\n",
        certificate.display(),
        key.display()
    ));
    let command = Ratelimit::new(&sandbox).command(&format!("serve -c {}", folder.file().display()));
    let mut daemon = Daemon::by(&sandbox, command);
    assert_eq!(daemon.line(), format!("ratelimit: serving gRPC on https://{VICTIM_IPV4}:8443 by 1 rule"));
    let ask = async |channel: &Channel, token: Option<&str>| {
        let mut call = Request::new(request([descriptor(&[("x", "y")])], 0));
        if let Some(token) = token {
            call.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        RateLimitServiceClient::new(channel.clone()).should_rate_limit(call).await
    };
    sandbox.peer(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&authority.pem));
            let server = Channel::from_shared(format!("https://{VICTIM_IPV4}:8443")).unwrap();
            let channel = server.tls_config(tls).unwrap().connect().await.unwrap();
            assert_eq!(ask(&channel, Some("secret")).await.unwrap().into_inner().overall_code(), Code::Ok);
            for token in [None, Some("wrong")] {
                assert_eq!(ask(&channel, token).await.unwrap_err().code(), StatusCode::Unauthenticated);
            }
            // Health checks need no token.
            let mut health = tonic::client::Grpc::new(channel.clone());
            health.ready().await.unwrap();
            let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
            let codec = ProstCodec::<StringValue, UInt32Value>::default();
            let answer = health.unary(Request::new(StringValue::default()), path, codec).await;
            assert_eq!(answer.unwrap().into_inner(), UInt32Value { value: 1 });
            let error = ask(&channel, Some("other")).await.unwrap_err();
            assert_eq!(
                (error.code(), error.message()),
                (StatusCode::PermissionDenied, "the token monitor may not ask about requests: the operator of the server can give it the scope check, in its [[token]]")
            );
        });
    });
    daemon.process.signal(Signal::TERM);
    assert!(daemon.process.wait().status.success());
}
