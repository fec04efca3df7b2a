//! Schedules of a server.

use super::Remote;
use super::transport::Call;
use crate::error::Error;
use duetime_core::Schedule;
use duetime_core::api::{self, path_segment};
use duetime_core::model::name;
use duetime_core::schedule::ScheduleStatus;
use hyper::Method;

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
        is_dry: bool,
    ) -> Result<ScheduleStatus, Error> {
        let query = if is_dry { "?dry_run=true" } else { "" };
        let call = Call::new(Method::PUT, format!("{}{query}", path(name)?));
        self.shown_schedule(call.json(&schedule)?.repeats(true)).await
    }

    pub(in crate::client) async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        self.transport.send(Call::new(Method::DELETE, path(name)?)).await?.done()
    }

    async fn shown_schedule(&self, call: Call) -> Result<ScheduleStatus, Error> {
        self.transport.send(call).await?.read()
    }
}

/// Checked here, since a name that is none may lead to another path.
fn path(name: &str) -> Result<String, Error> {
    name::check_schedule(name)?;
    Ok(format!("/v1/schedules/{}", path_segment(name)))
}
