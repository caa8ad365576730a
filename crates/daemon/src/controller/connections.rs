//! Accepts the connections of a Unix socket, so many at a time. What they say belongs to the modules that answer.

use std::{sync::Arc, time::Duration};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

/// The pause after a connection that could not be accepted, for example for lack of files.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers at most so many connections at a time, until it is aborted. Further ones wait.
pub(super) async fn serve<F>(listener: UnixListener, most: usize, answer: impl Fn(UnixStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        tokio::select! {
            (accepted, place) = accepted => match accepted {
                Ok((stream, _)) => {
                    let answered = answer(stream);
                    connections.spawn(async move {
                        answered.await;
                        drop(place);
                    });
                }
                Err(_) => sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
