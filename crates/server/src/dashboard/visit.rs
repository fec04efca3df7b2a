//! A request for a page: its reader, its language, and the answer.

use super::api::{Answer, Api, Problem, quoted};
use super::form::Form;
use super::language::Language;
use super::paths::{IN_QUERY, see_other, with_query};
use super::session::{self, cookie, form_token};
use super::state::Dashboard;
use super::text::Text;
use crate::access::{Caller, Scope};
use crate::cli::target::SERVER_DEFAULT;
use crate::http::{Peer, Prefix, REQUEST_ID};
use axum::extract::{FromRequestParts, Path};
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use duetime_core::Engine;
use duetime_core::api::Attention;
use duetime_core::{Error, Millis};
use maud::Markup;
use std::convert::Infallible;
use url::form_urlencoded;

/// A request for a page.
pub(super) struct Visit {
    pub(super) api: Api,
    pub(super) language: Language,
    pub(super) now: Millis,
    /// The hash that forms of this session contain.
    pub(super) form: String,
    /// Path and query of the page, without one-time notices.
    pub(super) here: String,
    /// Parameters of the query.
    query: Vec<(String, String)>,
    /// The server's address, as the browser names it, and the prefix under which the dashboard is mounted.
    pub(super) origin: String,
    pub(super) asks_for_tokens: bool,
    pub(super) cookies: Vec<HeaderValue>,
    /// What keeps the jobs, in a word or two.
    pub(super) store: &'static str,
    /// What needs attention; `None` for a visit without a reader.
    pub(super) attention: Option<Attention>,
    /// The problem of the last action.
    pub(super) problem: Option<Problem>,
    /// The form of the last action, if it was refused or only previewed.
    refused: Option<Form>,
    /// A preview of the last form, if somebody asked for one.
    pub(super) preview: Option<Markup>,
}

impl Visit {
    async fn new(parts: &mut Parts, dashboard: &Dashboard) -> Self {
        let Dashboard { app, api } = dashboard;
        let Ok::<Caller, Infallible>(caller) = Caller::from_request_parts(parts, app).await;
        let peer = *parts.extensions.get::<Peer>().expect("each request has one");
        let request_id = parts.headers[REQUEST_ID].clone();
        let mut cookies = Vec::new();
        let form = match cookie(&parts.headers, session::name(app)) {
            Some(cookie) => form_token(cookie),
            None => session::random().map_or_else(String::new, |random| {
                cookies.push(session::set(app, Some(&random)));
                form_token(&random)
            }),
        };
        let mut query: Vec<(String, String)> =
            form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        let chosen = query.iter().find(|(name, _)| name == "language").and_then(|(_, tag)| Language::of_tag(tag));
        cookies.extend(chosen.map(Language::cookie));
        let language = chosen.unwrap_or_else(|| Language::of(&parts.headers));
        let api = Api { routes: api.clone(), caller, peer, request_id, language };
        query.retain(|(name, value)| name != "language" && !value.is_empty());
        let kept = query.iter().filter(|(name, _)| name != "done");
        let here = with_query(parts.uri.path(), kept.map(|(name, value)| (&**name, &**value)));
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:7300");
        let scheme = if app.is_https() { "https" } else { "http" };
        Self {
            api,
            language,
            now: app.engine.now(),
            form,
            here,
            query,
            origin: format!("{scheme}://{host}{}", parts.extensions.get().map_or("", Prefix::as_str)),
            asks_for_tokens: app.tokens().is_some(),
            cookies,
            store: store(&app.engine),
            attention: None,
            problem: None,
            refused: None,
            preview: None,
        }
    }

    /// A parameter of the query, unless it is empty.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Parameters of the query with these names.
    pub(super) fn asked_all<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.query.iter().filter(|(name, _)| names.contains(&&**name)).map(|(name, value)| (&**name, &**value))
    }

    /// A command line for this server, as words. It names the server unless that is the default one.
    pub(super) fn command(&self, words: &[&str]) -> String {
        let other = Some(&*self.origin).filter(|origin| *origin != SERVER_DEFAULT);
        let words = std::iter::once("duetime").chain(words.iter().copied());
        let words: Vec<String> = words.chain(other.into_iter().flat_map(|url| ["--server", url])).map(quoted).collect();
        words.join(" ")
    }

    /// A text in the reader's language.
    pub(super) fn say(&self, text: Text) -> &'static str {
        self.language.say(text)
    }

    /// Whether the reader may do this with this name.
    pub(super) fn may(&self, scope: Scope, name: &str) -> bool {
        self.api.caller.may(scope, name)
    }

    /// Reads the object at a path of the API.
    ///
    /// # Errors
    /// The API's problem.
    pub(super) async fn get(&self, path: impl Into<String>) -> Result<Answer, Problem> {
        self.api.get(path).await
    }

    /// Reads the object at a path of the API; `None` if the reader has no right to it, such as one who may read only some
    /// queues.
    ///
    /// # Errors
    /// Any other problem of the API.
    pub(super) async fn get_allowed(&self, path: String) -> Result<Option<Answer>, Problem> {
        match self.get(path).await {
            Err(problem) if problem.code == "forbidden" => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Keeps a refused form, so that the page can show it again.
    pub(super) fn refuse(&mut self, problem: Problem, form: Form) {
        self.problem = Some(problem);
        self.refused = Some(form);
    }

    /// Keeps a form of which a preview was asked, so that the page can show it again.
    pub(super) fn keep(&mut self, preview: Markup, form: Form) {
        self.preview = Some(preview);
        self.refused = Some(form);
    }

    /// The refused form of an action.
    pub(super) fn refused(&self, action: &str) -> Option<&Form> {
        self.refused.as_ref().filter(|form| form.get("do") == Some(action))
    }

    /// The texts of the fields with this name in the refused form, whatever its action.
    pub(super) fn kept<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.refused.iter().flat_map(|form| form.all(name).collect::<Vec<_>>())
    }

    /// Fields of the refused form that the reader filled in.
    pub(super) fn typed_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.refused.iter().flat_map(Form::typed)
    }

    /// The text of a field: as typed if the action was refused, or else the usual text.
    pub(super) fn typed<'a>(&'a self, action: &str, name: &str, usual: &'a str) -> &'a str {
        self.refused(action).and_then(|form| form.all(name).next()).unwrap_or(usual)
    }
}

/// What keeps the jobs.
fn store(engine: &Engine) -> &'static str {
    match (engine.is_shared(), engine.has_ledger()) {
        (false, _) => "SQLite",
        (true, true) => "Redis + SQL",
        (true, false) => "Redis",
    }
}

/// The name of what a page is about: see [`page_path`](super::paths::page_path).
pub(super) struct Named(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = crate::http::Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(name) = path.map_err(|_| Error::invalid("path", "UTF-8, percent-encoded", parts.uri.path()))?;
        if name != IN_QUERY {
            return Ok(Self(name));
        }
        let mut query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        Ok(Self(query.find(|(field, _)| field == "name").map_or(name, |(_, name)| name.into_owned())))
    }
}

/// A visit without a check of who makes it.
pub(super) struct Guest(pub(super) Visit);

impl FromRequestParts<Dashboard> for Guest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, dashboard: &Dashboard) -> Result<Self, Infallible> {
        Ok(Self(Visit::new(parts, dashboard).await))
    }
}

impl FromRequestParts<Dashboard> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, dashboard: &Dashboard) -> Result<Self, Response> {
        let visit = Self::new(parts, dashboard).await;
        if !matches!(visit.api.caller, Caller::Nobody) {
            let attention = visit.get("/v1/attention").await;
            return Ok(Self { attention: attention.ok().map(|answer| answer.read()), ..visit });
        }
        let to = if parts.method == Method::GET { visit.here.as_str() } else { parts.uri.path() };
        Err(see_other(&with_query("/sign-in", std::iter::once(("to", to)))))
    }
}
