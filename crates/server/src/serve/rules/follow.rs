//! Follows the rules that other servers write.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::{task::spawn_blocking, time::sleep};

use super::book::Book;

/// Time between two looks at the version in the engine.
const STEP: Duration = Duration::from_secs(1);

/// Looks again and again for rules that other servers have written.
pub(in crate::serve) async fn follow(book: Arc<Book>) -> Infallible {
    loop {
        // Servers that begin together do not stay together.
        sleep(STEP.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
        let book = Arc::clone(&book);
        let _ = spawn_blocking(move || book.follow()).await;
    }
}
