//! The handlers of a worker, by kind.

use super::context::Context;
use super::handler::{AnyHandler, Handled, Handling, Next};
use crate::job_type::JobType;
use duetime_core::Job;
use std::collections::HashMap;
use std::sync::Arc;

/// A function that runs around every handler.
type Wrapper = Arc<dyn Fn(Context, Next) -> Handling + Send + Sync>;

#[derive(Default)]
pub(super) struct Handlers {
    by_kind: HashMap<Arc<str>, AnyHandler>,
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
        for kind in J::WAS.iter().chain([&J::KIND]) {
            self.by_kind.insert(Arc::from(*kind), handler.clone());
        }
    }

    pub(super) fn raw(&mut self, kind: Arc<str>, handler: AnyHandler) {
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
