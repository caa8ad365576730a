//! Messages of Envoy, as bytes.

use anyhow::{Result, bail, ensure};
use bytes::{Buf as _, BufMut as _};
use ratelimit_tests::generate::random::Random;
use tokio::runtime::Runtime;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};

use super::{mutate::mutated, server::Server, target::Target};

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Carries bytes as they are.
#[derive(Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Decode = Vec<u8>;
    type Decoder = Self;
    type Encode = Vec<u8>;
    type Encoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Error = Status;
    type Item = Vec<u8>;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Error = Status;
    type Item = Vec<u8>;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; from.remaining()];
        from.copy_to_slice(&mut bytes);
        Ok(Some(bytes))
    }
}

pub(super) struct Messages {
    runtime: Runtime,
    client: Grpc<Channel>,
    corpus: Vec<Vec<u8>>,
}

impl Messages {
    pub(super) fn new(server: &Server) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let endpoint = Endpoint::from_shared(format!("unix:{}", server.grpc.display()))?;
        let client = Grpc::new(runtime.block_on(endpoint.connect())?);
        let digit = |digit: u8| char::from(digit).to_digit(16).map_or(0, |value| value as u8);
        let bytes =
            |line: &str| line.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
        let corpus = include_str!("../../../../data/requests/grpc.txt").lines().map(bytes).collect();
        Ok(Self { runtime, client, corpus })
    }
}

impl Target for Messages {
    fn next(&mut self, random: &mut Random) -> Result<&'static str> {
        let message = mutated(&self.corpus, random);
        let client = &mut self.client;
        let answer = self.runtime.block_on(async {
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            client.unary(Request::new(message.clone()), PathAndQuery::from_static(PATH), Raw).await
        });
        match answer {
            // The first field is the code of all: 1 allows, and 2 refuses.
            Ok(answer) => match answer.get_ref()[..] {
                [8, 1, ..] => Ok("allowed"),
                [8, 2, ..] => Ok("refused"),
                _ => bail!("{:?} after {message:02x?}", answer.get_ref()),
            },
            Err(status) => {
                ensure!(
                    !status.message().is_empty() && status.message().len() <= 1_000,
                    "{status:?} after {message:02x?}"
                );
                match status.code() {
                    Code::InvalidArgument => Ok("invalid"),
                    Code::OutOfRange => Ok("too large"),
                    // The message is no message at all.
                    Code::Internal if status.message().contains("decode") => Ok("unreadable"),
                    _ => bail!("{status:?} after {message:02x?}"),
                }
            }
        }
    }
}
