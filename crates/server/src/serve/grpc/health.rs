//! The health service of gRPC: `grpc.health.v1.Health/Check`.

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response as HttpResponse,
};
use envoy_types::pb::{
    envoy::service::ratelimit::v3::rate_limit_service_server::SERVICE_NAME,
    google::protobuf::{StringValue, UInt32Value},
};
use tonic::{
    Request as Call, Response as Answer, Status,
    server::{Grpc, UnaryService},
};
use tonic_prost::ProstCodec;

use crate::serve::service::Service;

/// The path of a call.
pub(super) const CHECK: &str = "/grpc.health.v1.Health/Check";
/// The largest message in bytes.
const MESSAGE: usize = 1 << 10;
/// The states of the protocol that this server has.
const SERVING: u32 = 1;
const NOT_SERVING: u32 = 2;

/// Says whether the server serves. A question is the name of a service, and an answer is a number: the messages of the
/// protocol have the same bytes.
struct Check(Arc<Service>);

impl UnaryService<StringValue> for Check {
    type Response = UInt32Value;
    type Future = Ready<Result<Answer<UInt32Value>, Status>>;

    fn call(&mut self, call: Call<StringValue>) -> Self::Future {
        let StringValue { value: name } = call.into_inner();
        ready(match &*name {
            "" | SERVICE_NAME => {
                let value = if self.0.is_ending() { NOT_SERVING } else { SERVING };
                Ok(Answer::new(UInt32Value { value }))
            }
            _ => Err(Status::not_found(format!("unknown service: expected none, or {SERVICE_NAME}"))),
        })
    }
}

/// Answers a call.
pub(super) async fn check(State(service): State<Arc<Service>>, call: Request) -> HttpResponse {
    let codec = ProstCodec::<UInt32Value, StringValue>::default();
    let mut grpc = Grpc::new(codec).apply_max_message_size_config(Some(MESSAGE), None);
    grpc.unary(Check(service), call).await.map(Body::new)
}

#[cfg(test)]
mod tests {
    use axum::body::{Bytes, to_bytes};

    use super::*;

    #[test]
    fn the_answer_is_serving_until_the_server_ends() {
        let service = Arc::new(Service::new(Vec::new(), Arc::default(), None, None, false).unwrap().0);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ask = |name: &[u8]| {
            // A message: not compressed, its length, and the field 1.
            let message = [&[0, 0, 0, 0, 2 + name.len() as u8, 0x0a, name.len() as u8], name].concat();
            let call = Request::post(CHECK).header("content-type", "application/grpc").body(Body::from(message));
            runtime.block_on(async {
                let answer = check(State(Arc::clone(&service)), call.unwrap()).await;
                let status = answer.headers().get("grpc-status").cloned();
                (status, to_bytes(answer.into_body(), 100).await.unwrap())
            })
        };
        // A message of two bytes: the field 1 is 1.
        let serving = Bytes::from_static(&[0, 0, 0, 0, 2, 0x08, 1]);
        assert_eq!(ask(b""), (None, serving.clone()));
        assert_eq!(ask(SERVICE_NAME.as_bytes()), (None, serving));
        let (status, _) = ask(b"other");
        assert_eq!(status.unwrap(), (tonic::Code::NotFound as i32).to_string().as_str());
        service.end();
        assert_eq!(ask(b""), (None, Bytes::from_static(&[0, 0, 0, 0, 2, 0x08, 2])));
    }
}
