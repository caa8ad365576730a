//! This server as a part of a fleet: it carries the reports of its limiter to the engine, and the shares back.

use std::{convert::Infallible, sync::Arc, time::Duration};

use ratelimit_base::notify::journal::{self, Level};
use ratelimit_common::fleet::share::Terms;
use ratelimit_fleet::{
    address::Address,
    engine::{Engine, Message, deadline},
    error::Error,
    kept::seed,
    key::Key,
    outage::Outage,
    table::{self as fleet, Weight},
    way::Place,
};
use ratelimit_limiter::{Due, Limiter, Shares};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{lent, service::Service};

/// The most reports of a period, and those of clients that the engine does not know.
const REPORTS: usize = 10_000;
const NEW: f64 = 1_000.0;
/// Time in which the engine must accept a connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// The shortest and the longest time between two tries.
const TRIES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];
/// Part of the time without an engine that passes before the next try.
const PART: u32 = 4;
/// Time between two looks at the seed of the fleet, which an engine that begins anew does not know.
const SEED: Duration = Duration::from_secs(1);

/// Time without a failure after which the engine counts as back, if there is nothing to report.
const STEADY: Duration = Duration::from_secs(2);

/// The fleet of a server.
pub(super) struct Fleet {
    engine: Address,
    terms: Terms,
    weight: f64,
    shares: bool,
    /// Where others of this server find the engine.
    link: watch::Sender<Option<Engine>>,
}

impl Fleet {
    /// Returns the fleet of the file, and a warning if its limits are not shared. None if it has no server as engine.
    pub(super) fn of(fleet: fleet::Fleet, link: watch::Sender<Option<Engine>>) -> (Option<Self>, Option<&'static str>) {
        let fleet::Fleet { engine, terms, weight, accepts, .. } = fleet;
        let Place::Server(engine) = engine else {
            return (None, Some("limits for requests are not shared by gossip: that needs a server as engine"));
        };
        // A server of requests does not know the load of its host.
        let weight = if let Weight::Fixed(weight) = weight { weight } else { 1.0 };
        let warning = "limits for requests are not shared, since `accept` has no limits";
        let fleet = Self { engine, terms, weight, shares: accepts.limits, link };
        (Some(fleet), (!accepts.limits).then_some(warning))
    }
}

/// Takes part in a fleet, until it is dropped.
pub(super) async fn follow(service: Arc<Service>, fleet: Fleet) -> Infallible {
    service.fleet.join(fleet.shares);
    let mut told = Told { is_up: None, since: Instant::now(), outage: Outage::default() };
    loop {
        let error = match connect(&fleet, &service).await {
            Ok(engine) => {
                let for_others = lent::connect(&fleet.engine).await;
                tokio::select! {
                    error = share(&service, &fleet, &engine, &mut told) => error,
                    never = lent::lend(&service.fleet, &fleet.engine, &fleet.link, for_others) => match never {},
                }
            }
            Err(error) => {
                service.fleet.count(0, true);
                error
            }
        };
        fleet.link.send_replace(None);
        told.down(&service, &fleet, &error);
        let [shortest, longest] = TRIES;
        let pause = (told.since.elapsed() / PART).mul_f64(fastrand::f64()).clamp(shortest, longest);
        wait(&service, &fleet, Instant::now() + pause).await;
    }
}

/// What the operator knows of the engine.
struct Told {
    is_up: Option<bool>,
    /// When that began to be so.
    since: Instant,
    /// Why the engine does not answer.
    outage: Outage,
}

impl Told {
    fn up(&mut self, service: &Service, fleet: &Fleet) {
        if self.is_up == Some(true) {
            return;
        }
        self.outage.end();
        let after = self.is_up.map(|_| format!(" again, after {:.1} s", self.since.elapsed().as_secs_f64()));
        let shared = if fleet.shares { ": limits are shared" } else { "" };
        let text = format!("fleet: {} answers{}{shared}", fleet.engine, after.unwrap_or_default());
        self.tell(service, true, Level::Info, &text);
    }

    fn down(&mut self, service: &Service, fleet: &Fleet, error: &Error) {
        let (engine, is_new) = (&fleet.engine, self.outage.has_new(error));
        if self.is_up != Some(false) {
            let text = if fleet.shares {
                format!("fleet: {engine} gives no shares: {error}: local limits apply until it does")
            } else {
                format!("fleet: {engine} does not answer: {error}")
            };
            self.tell(service, false, Level::Warning, &text);
        } else if is_new {
            journal::say(Level::Warning, &format!("fleet: {engine} still does not answer: {error}"));
        }
    }

    fn tell(&mut self, service: &Service, is_up: bool, level: Level, text: &str) {
        (self.is_up, self.since) = (Some(is_up), Instant::now());
        service.fleet.set_up(is_up);
        journal::say(level, text);
    }
}

/// Connects, and names clients as the others do.
async fn connect(fleet: &Fleet, service: &Service) -> Result<Engine, Error> {
    let engine = Engine::connect(&fleet.engine, PATIENCE).await?.within(deadline(&fleet.terms));
    agree(fleet, service, &engine).await?;
    Ok(engine)
}

/// Names clients as the others do. A server that was in the fleet before keeps the names, if the engine has lost them.
async fn agree(fleet: &Fleet, service: &Service, engine: &Engine) -> Result<(), Error> {
    let seed = seed::agree(engine, service.fleet.seed_or_random()).await?;
    if fleet.shares && service.fleet.seed() != Some(seed) {
        service.fleet.set_seed(seed);
        let shares = Shares::new([seed as u64, (seed >> 64) as u64], fleet.terms);
        service.share(Some(Arc::new(shares)));
    }
    Ok(())
}

/// Reports in each period, until the engine fails.
async fn share(service: &Service, fleet: &Fleet, engine: &Engine, told: &mut Told) -> Error {
    let new = (NEW * fleet.terms.period).ceil() as usize;
    let begin = Instant::now();
    let (mut next, mut next_seed) = (begin, begin + SEED);
    loop {
        // Servers that begin together do not stay together.
        let pause = Duration::from_secs_f64(fleet.terms.period * (0.9 + 0.2 * fastrand::f64()));
        next = (next + pause).max(Instant::now());
        sleep_until(next).await;
        let limiter = service.limiter();
        if let Some(shares) = limiter.shares()
            && let due = shares.reports(fleet.weight, [REPORTS, new], service.now())
            && !due.is_empty()
        {
            let messages: Vec<_> = due.iter().map(|due| message(&limiter, due)).collect();
            let (answers, failure) = engine.report(&fleet.terms, &messages).await;
            let now = service.now();
            for (due, answer) in due.iter().zip(&answers) {
                shares.take(due, answer.as_ref(), now);
            }
            let answered = answers.iter().flatten().count();
            service.fleet.count(answered, failure.is_some());
            // A cluster without one of its servers answers for the others.
            if let Some(error) = failure.filter(|_| answered == 0) {
                return error;
            }
        }
        // An engine that fails again and again is not told each time.
        if told.is_up.is_none() || begin.elapsed() >= STEADY {
            told.up(service, fleet);
        }
        if Instant::now() >= next_seed {
            next_seed = Instant::now() + SEED;
            // Of a cluster, one server has the seed. The others have the records of their clients without it.
            if let Err(error) = agree(fleet, service, engine).await
                && !engine.answers_in_part().await
            {
                return error;
            }
        }
    }
}

fn message(limiter: &Limiter, due: &Due) -> Message {
    // A rule that is no longer in force has a name that no rule can have.
    let rule = limiter.rule_of(due).unwrap_or_default();
    let name = format!("check:{rule}:{}:{:032x}", due.number(), due.client);
    Message { key: Key::of(&name, &due.limit), limit: due.limit, report: due.report }
}

/// Counts periods without an engine, until a time.
async fn wait(service: &Service, fleet: &Fleet, end: Instant) {
    let period = Duration::from_secs_f64(fleet.terms.period);
    let periods = async {
        loop {
            sleep(period).await;
            if let Some(shares) = service.limiter().shares() {
                shares.skip(service.now());
            }
        }
    };
    let _: Result<Infallible, _> = timeout(end.saturating_duration_since(Instant::now()), periods).await;
}
