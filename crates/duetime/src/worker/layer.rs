//! Layers of tower around handlers.

use super::Worker;
use super::context::Context;
use super::handler::Next;
use super::job_error::JobError;
use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{self, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Any error of a layer.
type BoxError = Box<dyn StdError + Send + Sync>;

/// A job on its way through layers to its handler: the request of the services that [`Worker::layer`] takes.
pub struct Call {
    context: Context,
    next: Next,
}

impl Call {
    /// The job.
    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Call").field(&self.context).finish()
    }
}

/// The service that a layer wraps: it runs the handler.
#[derive(Clone, Debug)]
pub struct Run(());

/// The failure or release that a handler returned, as layers see it. If a layer passes it on, a final failure stays final, and a
/// release stays a release.
#[derive(Debug)]
pub struct Failed(JobError);

impl Failed {
    /// The handler's error.
    pub fn error(&self) -> &JobError {
        &self.0
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Failed {}

impl Service<Call> for Run {
    type Response = ();
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<(), Failed>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        Box::pin(async move { call.next.run(call.context).await.map_err(Failed) })
    }
}

impl<S: Clone + Send + Sync + 'static> Worker<S> {
    /// Puts a layer of tower around every handler, inside the layers and [wrappers](Self::wrap) that were added before: for example
    /// a rate limit that several workers share, or your company's tracing. It needs the feature `tower`.
    ///
    /// An error of the layer itself, such as its time limit, is a failure of the attempt. A job that waits in a layer has its
    /// handler already: [`concurrency`](Self::concurrency) counts it.
    ///
    /// ```
    /// # use duetime::{Client, Worker};
    /// # fn example(client: &Client) {
    /// let worker = Worker::new(client).layer(tower::limit::ConcurrencyLimitLayer::new(2));
    /// # }
    /// ```
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Run>,
        L::Service: Service<Call, Response = ()> + Clone + Send + 'static,
        <L::Service as Service<Call>>::Error: Into<BoxError>,
        <L::Service as Service<Call>>::Future: Send,
    {
        let service = Mutex::new(layer.layer(Run(())));
        self.wrap(move |context, next| {
            let mut service = service.lock().unwrap_or_else(PoisonError::into_inner).clone();
            async move {
                poll_fn(|task| service.poll_ready(task)).await.map_err(failed)?;
                service.call(Call { context, next }).await.map_err(failed)
            }
        })
    }
}

/// The handler's own error, or a failure for an error of the layer.
fn failed(error: impl Into<BoxError>) -> JobError {
    match error.into().downcast::<Failed>() {
        Ok(failed) => failed.0,
        Err(error) => JobError::new(error),
    }
}
