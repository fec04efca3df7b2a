//! Schedules of a server.

use super::transport::Call;
use super::{Remote, first};
use crate::error::Error;
use crate::push::Pushed;
use crate::request_id;
use duetime_core::Schedule;
use duetime_core::api::{self, path_segment};
use duetime_core::engine::Pause;
use duetime_core::model::name;
use duetime_core::schedule::{Run, ScheduleStatus};
use hyper::Method;
use std::sync::Arc;

impl Remote {
    pub(in crate::client) async fn schedules(&self) -> Result<Vec<ScheduleStatus>, Error> {
        self.pages("/v1/schedules", |page: api::Schedules| (page.schedules, page.next_cursor)).await
    }

    pub(in crate::client) async fn schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        self.shown_schedule(Call::get(path(name)?)).await
    }

    pub(in crate::client) async fn set_schedule(
        &self,
        name: &str,
        schedule: Schedule,
    ) -> Result<ScheduleStatus, Error> {
        self.put_schedule(path(name)?, &schedule).await
    }

    pub(in crate::client) async fn preview_schedule(
        &self,
        name: &str,
        schedule: Schedule,
    ) -> Result<ScheduleStatus, Error> {
        self.put_schedule(format!("{}?dry_run=true", path(name)?), &schedule).await
    }

    async fn put_schedule(&self, path: String, schedule: &Schedule) -> Result<ScheduleStatus, Error> {
        self.shown_schedule(Call::new(Method::PUT, path).json(schedule)?.repeats(true)).await
    }

    pub(in crate::client) async fn pause_schedule(&self, name: &str, pause: Pause) -> Result<ScheduleStatus, Error> {
        let body = api::PauseBody::from(pause);
        self.shown_schedule(Call::post(format!("{}/pause", path(name)?)).json(&body)?.repeats(true)).await
    }

    pub(in crate::client) async fn resume_schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        self.shown_schedule(Call::post(format!("{}/resume", path(name)?)).repeats(true)).await
    }

    pub(in crate::client) async fn run_schedule(&self, name: &str, origin: Option<Arc<str>>) -> Result<Pushed, Error> {
        let has_origin = origin.is_some();
        let call = Call::post(format!("{}/run", path(name)?));
        let call = call.idempotency_key(origin.unwrap_or_else(request_id::next));
        Ok(first(self.transport.send(call).await?.read()?, has_origin))
    }

    pub(in crate::client) async fn next_runs(&self, name: &str, limit: usize) -> Result<Vec<Run>, Error> {
        let call = Call::get(format!("{}/next?limit={limit}", path(name)?));
        Ok(self.transport.send(call).await?.read::<api::Runs>()?.runs)
    }

    pub(in crate::client) async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        self.transport.send(Call::new(Method::DELETE, path(name)?)).await?.done()
    }

    async fn shown_schedule(&self, call: Call) -> Result<ScheduleStatus, Error> {
        self.transport.send(call).await?.read()
    }
}

/// Checked here because an invalid name may lead to another path.
fn path(name: &str) -> Result<String, Error> {
    name::check_schedule(name)?;
    Ok(format!("/v1/schedules/{}", path_segment(name)))
}
