//! The handlers of a worker, by kind.

use super::context::Context;
use super::handler::{AnyHandler, Handled, Handling, Next};
use crate::job_type::JobType;
use duetime_core::Job;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A function that runs around every handler.
type Wrapper = Arc<dyn Fn(Context, Next) -> Handling + Send + Sync>;

#[derive(Default)]
pub(super) struct Handlers {
    by_kind: HashMap<Arc<str>, AnyHandler>,
    /// Free handlers of the kinds that have a limit. Kinds of one type share theirs.
    slots: HashMap<Arc<str>, Arc<Semaphore>>,
    fallback: Option<AnyHandler>,
    /// Outermost first.
    wrappers: Vec<Wrapper>,
    /// The queues of typed handlers, in their order.
    queues: Vec<&'static str>,
}

impl Handlers {
    /// Adds the handler of a type, for its former kinds, too.
    pub(super) fn typed<J: JobType>(&mut self, handler: &AnyHandler) {
        if !self.queues.contains(&J::QUEUE) {
            self.queues.push(J::QUEUE);
        }
        let slots = J::CONCURRENCY.map(|limit| Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS))));
        for kind in J::WAS.iter().chain([&J::KIND]) {
            self.by_kind.insert(Arc::from(*kind), handler.clone());
            match &slots {
                Some(slots) => self.slots.insert(Arc::from(*kind), slots.clone()),
                None => self.slots.remove(*kind),
            };
        }
    }

    /// Whether one more handler of the job's kind may run.
    pub(super) fn has_slot(&self, job: &Job) -> bool {
        self.slots.is_empty() || self.slots.get(&job.kind).is_none_or(|slots| slots.available_permits() > 0)
    }

    /// The permit to run one more handler of the job's kind; `None` if it has no limit.
    pub(super) fn slot(&self, job: &Job) -> Option<OwnedSemaphorePermit> {
        self.slots.get(&job.kind)?.clone().try_acquire_owned().ok()
    }

    pub(super) fn raw(&mut self, kind: Arc<str>, handler: AnyHandler) {
        self.slots.remove(&kind);
        self.by_kind.insert(kind, handler);
    }

    pub(super) fn fallback(&mut self, handler: AnyHandler) {
        self.fallback = Some(handler);
    }

    pub(super) fn queues(&self) -> &[&'static str] {
        &self.queues
    }

    pub(super) fn wrap<F, R>(&mut self, wrapper: F)
    where
        F: Fn(Context, Next) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.wrappers.push(Arc::new(move |context, next| Box::pin(wrapper(context, next))));
    }

    /// The job's handler, wrapped.
    pub(super) fn of(&self, job: &Job) -> Option<AnyHandler> {
        let handler = self.by_kind.get(&job.kind).or(self.fallback.as_ref())?.clone();
        let within = |inner: AnyHandler, wrapper: &Wrapper| -> AnyHandler {
            let wrapper = wrapper.clone();
            Arc::new(move |context| wrapper(context, Next(inner.clone())))
        };
        Some(self.wrappers.iter().rev().fold(handler, within))
    }
}
