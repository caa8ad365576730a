//! Tells whether servers of a fleet have rules of the same name with different limits.

use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};

use ratelimit_fleet::{
    error::Error,
    kept::{bans, limits},
};
use tokio::time::timeout;

use super::{
    in_fleet::{InFleet, Link},
    rules::{Book, Problem, few_of},
};

/// Time between two looks.
const STEP: Duration = Duration::from_secs(5);
/// Time after which a server is forgotten.
const LIFE: Duration = Duration::from_secs(15);

/// Looks again and again, as the server with this name and address.
pub(super) async fn follow(
    book: Arc<Book>,
    mut link: Link,
    shown: Arc<InFleet>,
    [name, address]: [String; 2],
) -> Infallible {
    let server = bans::host(&name, &address);
    let [mut differ, mut unknown] = [Problem::default(), Problem::default()];
    loop {
        let engine = link.borrow_and_update().clone();
        if let Some(engine) = engine {
            let in_force = book.in_force();
            let compared = limits::compare(&engine, &server, LIFE, &in_force.limits_of_operator()).await;
            match &compared {
                Ok(_) => unknown.is_gone("rules can be compared with those of other servers again"),
                Err(Error::Silent(_) | Error::Lost(_)) => {}
                Err(error) => {
                    unknown.is_there(|| format!("rules cannot be compared with those of other servers: {error}"));
                }
            }
            if compared.is_err() {
                shown.show_differences(0);
            }
            if let Ok(found) = compared {
                shown.show_differences(found.len());
                if found.is_empty() {
                    differ.is_gone("rules of the same name have the same limits on all servers");
                } else {
                    differ.is_there(|| in_words(&found));
                }
            }
        } else {
            shown.show_differences(0);
        }
        // A link without an end is one without a fleet.
        if let Ok(Err(_)) = timeout(STEP, link.changed()).await {
            return pending().await;
        }
    }
}

fn in_words(found: &[limits::Difference]) -> String {
    let of = |limits::Difference { rule, server }: &limits::Difference| format!("{rule} on {}", bans::name(server));
    let names: Vec<_> = found.iter().map(of).collect();
    format!(
        "rules differ from those of other servers: {}: limits of different sizes are not shared, so use the same rules",
        few_of(&names)
    )
}
