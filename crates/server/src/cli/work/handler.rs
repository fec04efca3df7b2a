//! One job, one run of the command.

use super::ending::{self, Cause};
use super::environment;
use super::process::Process;
use super::stop::Stop;
use crate::cli::output::note;
use crate::cli::program::Program;
use duetime::worker::Handled;
use duetime::{Context, JobError};
use duetime_core::limits::RESULT_BYTES_MAX;
use std::time::Duration;

/// The settings that all runs share.
pub(super) struct Handler {
    pub(super) program: Program,
    /// Passed to the command, so that it can push to the same server.
    pub(super) server: Option<String>,
    pub(super) time_limit: Option<Duration>,
    /// Whether standard output becomes the job's result.
    pub(super) keeps_result: bool,
    pub(super) stop: Stop,
}

impl Handler {
    pub(super) async fn run(&self, context: Context) -> Handled {
        let mut environment = environment::of(context.job());
        environment.extend(self.server.clone().map(|server| ("DUETIME_SERVER", server)));
        let bytes_max = self.keeps_result.then_some(RESULT_BYTES_MAX);
        let process = Process::start(&self.program, environment, context.payload().clone(), bytes_max);
        let process = match process {
            Ok(process) => process,
            Err(error) => {
                // No job can be run: none is to fail for it.
                self.stop.fail(self.program.not_started(&error, "its job was released"));
                return Err(JobError::release(Duration::ZERO));
            }
        };
        self.follow(process, &context).await
    }

    async fn follow(&self, mut process: Process, context: &Context) -> Handled {
        let cause = tokio::select! {
            status = process.wait() => return self.finish(process, status?, None, context).await,
            cause = self.cause(context) => cause,
        };
        let status = process.end().await?;
        self.finish(process, status, Some(cause), context).await
    }

    /// Ready when the command is to be ended.
    async fn cause(&self, context: &Context) -> Cause {
        let limit = self.time_limit;
        tokio::select! {
            () = context.cancellation().cancelled() => Cause::Cancelled,
            () = self.stop.forced().cancelled() => Cause::Forced,
            cause = async move {
                match limit {
                    Some(limit) => { tokio::time::sleep(limit).await; Cause::TimeLimit(limit) }
                    None => std::future::pending().await,
                }
            } => cause,
        }
    }

    async fn finish(
        &self,
        process: Process,
        status: std::process::ExitStatus,
        cause: Option<Cause>,
        context: &Context,
    ) -> Handled {
        let ended = process.ended(status).await;
        let handled = ending::handled(ended.status, &ended.message, cause).and_then(|()| {
            match ended.output {
                Some(output) => context.set_result(output.trim_ascii_end())?,
                None if self.keeps_result => {
                    let message = format!("the result has more than {RESULT_BYTES_MAX} bytes, the limit");
                    return Err(JobError::fatal(message));
                }
                None => {}
            }
            Ok(())
        });
        if handled.is_err() {
            let (id, attempt) = (context.id(), context.attempt());
            note!("duetime: job {id}, attempt {attempt}: {}", ending::reason(ended.status, cause));
        }
        handled
    }
}
