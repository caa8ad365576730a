//! The layer, and the service that it makes.

use std::{
    fmt,
    future::{Future, poll_fn, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use ratelimit_limiter::{Attributes, Decision, Usage};
use tokio::{sync::Semaphore, time::sleep};
use tower_layer::Layer;
use tower_service::Service;

use super::current::Current;

/// The most requests that wait in queues at a time.
const WAITING: usize = 1_024;

/// A layer that asks a limiter about each request.
///
/// It needs a runtime of tokio with timers if a rule has a queue.
pub struct RateLimit<Q, R> {
    parts: Arc<Parts<Q, R>>,
    waiting: Arc<Semaphore>,
}

struct Parts<Q, R> {
    limiter: Arc<Current>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    question: Q,
    refuse: R,
}

impl<Q, R> RateLimit<Q, R> {
    /// Creates a layer.
    ///
    /// - `clock` returns nanoseconds, as [`Limiter::check`](ratelimit_limiter::Limiter::check) needs them.
    /// - `question` returns the attributes of a request, and its cost.
    /// - `refuse` returns the response to a request that is refused.
    pub fn new<Request, Said, Response>(
        limiter: Arc<Current>,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
        question: Q,
        refuse: R,
    ) -> Self
    where
        Q: Fn(&Request) -> (Said, u32),
        Said: Attributes,
        R: Fn(&Decision<'_>) -> Response,
    {
        let parts = Parts { limiter, clock: Box::new(clock), question, refuse };
        Self { parts: Arc::new(parts), waiting: Arc::new(Semaphore::new(WAITING)) }
    }

    /// Returns the layer with at most so many requests at a time that wait in queues, instead of 1,024. It refuses further
    /// ones, although their place in the queue is taken.
    #[must_use]
    pub fn with_waiting(self, most: usize) -> Self {
        Self { waiting: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), ..self }
    }
}

impl<Q, R> Clone for RateLimit<Q, R> {
    fn clone(&self) -> Self {
        Self { parts: Arc::clone(&self.parts), waiting: Arc::clone(&self.waiting) }
    }
}

impl<Q, R> fmt::Debug for RateLimit<Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimit").field(&self.parts.limiter).finish()
    }
}

impl<S, Q, R> Layer<S> for RateLimit<Q, R> {
    type Service = RateLimited<S, Q, R>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimited { inner, limit: self.clone() }
    }
}

/// A service behind a [`RateLimit`].
#[derive(Debug)]
pub struct RateLimited<S, Q, R> {
    inner: S,
    limit: RateLimit<Q, R>,
}

impl<S: Clone, Q, R> Clone for RateLimited<S, Q, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), limit: self.limit.clone() }
    }
}

impl<S, Q, R, Request, Said> Service<Request> for RateLimited<S, Q, R>
where
    S: Service<Request> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
    Request: Send + 'static,
    Q: Fn(&Request) -> (Said, u32),
    Said: Attributes,
    R: Fn(&Decision<'_>) -> S::Response,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Parts { limiter, clock, question, refuse } = &*self.limit.parts;
        let limiter = limiter.get();
        let (attributes, cost) = question(&request);
        let decision = limiter.check(&attributes, cost, clock());
        if !decision.is_allowed {
            return Box::pin(ready(Ok(refuse(&decision))));
        }
        let after = decision.after;
        if after.is_zero() {
            return Box::pin(self.inner.call(request));
        }
        let Ok(permit) = Arc::clone(&self.limit.waiting).try_acquire_owned() else {
            let limit = decision.limit.map(|usage| Usage { wait: Some(after), ..usage });
            return Box::pin(ready(Ok(refuse(&Decision { is_allowed: false, limit, ..decision }))));
        };
        // The service may hold a place for who is ready. The clone takes one only after its wait.
        let mut inner = self.inner.clone();
        Box::pin(async move {
            sleep(after).await;
            drop(permit);
            poll_fn(|context| inner.poll_ready(context)).await?;
            inner.call(request).await
        })
    }
}
