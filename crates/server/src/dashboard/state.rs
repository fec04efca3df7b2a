//! The state of all pages.

use crate::http::App;
use axum::Router;
use axum::extract::FromRef;

/// The server and the API's routes.
#[derive(Clone)]
pub(super) struct Dashboard {
    pub(super) app: App,
    pub(super) api: Router,
}

impl FromRef<Dashboard> for App {
    fn from_ref(dashboard: &Dashboard) -> Self {
        dashboard.app.clone()
    }
}
