//! Forms that a page sends: only the dashboard's, and only from the reader's session.

use super::session::{self, cookie, form_token, name};
use super::state::Dashboard;
use crate::http::{App, FORM_FIELDS_MAX, FormBody, GuestFormBody};
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, ORIGIN};
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;
use url::form_urlencoded;

/// The fields of a form.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// `None` if it has too many fields.
    fn read(text: &str) -> Option<Self> {
        // Browsers send each line end as CR and LF.
        let fields = form_urlencoded::parse(text.as_bytes())
            .map(|(name, value)| (name.into_owned(), value.replace("\r\n", "\n")));
        let fields: Vec<_> = fields.take(FORM_FIELDS_MAX + 1).collect();
        (fields.len() <= FORM_FIELDS_MAX).then_some(Self(fields))
    }

    /// The field with this name, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
        found.filter(|value| !value.is_empty())
    }

    /// Names and texts of the fields that the reader typed.
    pub(super) fn typed(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.0.iter().map(|(name, value)| (&**name, &**value));
        fields.filter(|(name, value)| !HIDDEN.contains(name) && !value.is_empty())
    }

    /// All fields with this name.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// Fields that a reader does not type.
const HIDDEN: [&str; 6] = ["form", "do", "version", "origin", "confirmed", "job"];

impl FromRequest<Dashboard> for Form {
    type Rejection = Response;

    async fn from_request(mut request: Request, dashboard: &Dashboard) -> Result<Self, Response> {
        let app = App::from_ref(dashboard);
        let headers = request.headers_mut();
        // Browsers leave the first out on plain HTTP beyond loopback. That an origin is this server's was checked before.
        let is_ours = match headers.get("sec-fetch-site") {
            Some(site) => site == "same-origin",
            None => headers.contains_key(ORIGIN),
        };
        let expected = cookie(headers, name(&app)).map(form_token);
        let is_guest = session::is_guest(&app, headers);
        // Bodies are JSON everywhere else.
        let media_type = headers.remove(CONTENT_TYPE);
        let is_form = media_type.is_some_and(|media_type| media_type == "application/x-www-form-urlencoded");
        if !is_ours || !is_form {
            return Err(refused("expected a form that a page of this server sent"));
        }
        let form = if is_guest {
            Self::read(GuestFormBody::from_request(request, &app).await.map_err(IntoResponse::into_response)?.text())
        } else {
            Self::read(FormBody::from_request(request, &app).await.map_err(IntoResponse::into_response)?.text())
        };
        let form = form.ok_or_else(|| refused("expected a form with at most 1,000 fields"))?;
        let is_known = |expected: String| {
            let shown = form.get("form").unwrap_or_default();
            bool::from(expected.as_bytes().ct_eq(shown.as_bytes()))
        };
        if expected.is_some_and(is_known) {
            return Ok(form);
        }
        Err(refused("expected a form of this session: go back, reload the page, and send it again"))
    }
}

fn refused(why: &'static str) -> Response {
    (StatusCode::FORBIDDEN, why).into_response()
}
