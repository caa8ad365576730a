//! The connection to the engine for the rules of callers and usage.

use std::{convert::Infallible, time::Duration};

use ratelimit_base::notify::journal::{self, Level};
use ratelimit_fleet::{address::Address, engine::Engine, error::Error, kept::seed, outage::Outage};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::in_fleet::InFleet;

/// Time in which the engine must accept the connection, and answer calls of others.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time of a look, and that before it.
const LOOK: Duration = Duration::from_secs(1);
/// Looks without an answer in a row after which the connection is renewed.
const LOOKS: u32 = 3;
/// The time before that. Reports find out sooner that the engine is gone.
const RENEW: Duration = Duration::from_secs(2);
/// The time for which a connection must hold until a reason of before is told again.
const QUIET: Duration = Duration::from_secs(60);

/// Connects for others.
pub(super) async fn connect(address: &Address) -> Result<Engine, Error> {
    Engine::connect(address, PATIENCE).await
}

/// Gives others a connection of their own, so that no large text of rules or usage delays reports. Its loss concerns them
/// alone.
pub(super) async fn lend(
    known: &InFleet,
    address: &Address,
    link: &watch::Sender<Option<Engine>>,
    mut connected: Result<Engine, Error>,
) -> Infallible {
    let mut outage = Outage::default();
    loop {
        let begin = Instant::now();
        let error = match connected {
            Ok(engine) => {
                link.send_replace(Some(engine.clone()));
                hold(known, &engine, LOOK).await
            }
            Err(error) => error,
        };
        link.send_replace(None);
        if begin.elapsed() >= QUIET {
            outage.end();
        }
        sleep(RENEW).await;
        connected = connect(address).await;
        if outage.has_new(&error) {
            let text = format!("fleet: {address}: the connection for rules and usage fails: {error}: it is renewed");
            journal::say(Level::Warning, &text);
        }
    }
}

/// Looks whether the connection for others holds, until it does not. A look and the time before it last for `pause`.
async fn hold(known: &InFleet, engine: &Engine, pause: Duration) -> Error {
    let engine = engine.clone().within(pause);
    let mut failed = 0;
    loop {
        sleep(pause).await;
        let error = match seed::agree(&engine, known.seed_or_random()).await {
            Err(error @ (Error::Lost(_) | Error::Silent(_))) => error,
            _ => {
                failed = 0;
                continue;
            }
        };
        failed += 1;
        if (failed >= LOOKS || matches!(error, Error::Lost(_))) && !engine.answers_in_part().await {
            return error;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    use super::*;
    use ratelimit_fleet::address::Kind;

    /// An engine that accepts connections, and answers nothing else.
    fn silent() -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("redis://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let (mut bytes, mut seen) = ([0; 4_096], String::new());
            loop {
                let Ok(count @ 1..) = stream.read(&mut bytes) else { return };
                seen += &String::from_utf8_lossy(&bytes[..count]);
                // The client tells its name and its version first, and asks what the server is.
                while let Some((at, answer)) = [("SETINFO", "+OK\r\n"), ("\nINFO", "-NOPERM\r\n")]
                    .into_iter()
                    .filter_map(|(word, answer)| Some((seen.find(word)?, answer)))
                    .min()
                {
                    seen.drain(..=at);
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        Address::new(&[address], Kind::Single, None, None).unwrap()
    }

    #[tokio::test]
    async fn a_connection_is_given_up_after_three_looks_without_an_answer() {
        let engine = connect(&silent()).await.unwrap();
        let (begin, pause) = (Instant::now(), Duration::from_millis(50));
        let error = hold(&InFleet::default(), &engine, pause).await;
        assert!(matches!(error, Error::Silent(time) if time == pause), "{error}");
        // Each look waits for as long as the time before it.
        assert!(begin.elapsed() >= 2 * LOOKS * pause, "{:?}", begin.elapsed());
    }
}
