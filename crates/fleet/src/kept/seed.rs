//! A secret number that all servers of a fleet share, and by which they name the clients of requests.

use redis::Value;

use crate::{engine::Engine, error::Error, script::Script};

/// The key of the seed.
const KEY: &str = "{rl:m}:seed";
const BYTES: usize = 16;

/// Returns the seed of the fleet. Without any, it is `ours` from now on.
///
/// # Errors
///
/// Any [`Error`] but that of the URL.
pub async fn agree(engine: &Engine, ours: u128) -> Result<u128, Error> {
    let script = Script::new(include_str!("seed.lua"));
    match engine.run(&script, &[KEY], &[ours.to_le_bytes().to_vec()]).await? {
        Value::BulkString(bytes) => read(&bytes),
        _ => Err(Error::Garbage("the seed is missing")),
    }
}

fn read(bytes: &[u8]) -> Result<u128, Error> {
    let bytes: [u8; BYTES] = bytes.try_into().map_err(|_| Error::Garbage("the seed has another length"))?;
    Ok(u128::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_16_bytes() {
        assert_eq!(read(&7u128.to_le_bytes()).ok(), Some(7));
        for bytes in [&b""[..], &[0; 15], &[0; 17]] {
            assert!(matches!(read(bytes), Err(Error::Garbage(_))));
        }
    }
}
