//! Answers to a visit: pages, and the outcome of actions.

use super::api::{Call, Problem};
use super::form::Form;
use super::html;
use super::paths::went;
use super::text::Text;
use super::visit::Visit;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::Markup;

/// The outcome of a call that was not made.
const NOT_TRIED: &str = "not_tried";

impl Visit {
    /// The answer to an action. If it was refused, the page shows the problem, and the form as it was filled in.
    pub(super) async fn answer_action<F: Future<Output = Response>>(
        mut self,
        made: Result<Response, Problem>,
        form: Form,
        page: impl FnOnce(Self) -> F,
    ) -> Response {
        match made {
            Ok(response) => response,
            Err(problem) => {
                self.refuse(problem, form);
                page(self).await
            }
        }
    }

    /// A page.
    pub(super) fn page(mut self, title: &str, content: &Markup) -> Response {
        let status = self.problem.as_ref().map_or(200, |problem| problem.status);
        let page = html::page(&self, title, content);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, page.into_string()).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        for cookie in self.cookies.drain(..) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response
    }

    /// The page with this title and content, or that of the problem.
    pub(super) fn answer(mut self, rendered: Result<(String, Markup), Problem>) -> Response {
        match rendered {
            Ok((title, content)) => self.page(&title, &content),
            Err(problem) => {
                let title = self.say(Text::NotShown);
                self.problem = Some(problem);
                self.page(title, &maud::html! {})
            }
        }
    }

    /// Makes calls, and goes to a page that tells how many came to which outcome. Once the store is unavailable, the calls
    /// that are left are not made: each would wait for it.
    ///
    /// # Errors
    /// The first problem, if there is only one call.
    pub(super) async fn act(&self, calls: Vec<(Call, &'static str)>, to: &str) -> Result<Response, Problem> {
        let is_one = calls.len() == 1;
        let mut done: Vec<(String, u64)> = Vec::new();
        let mut is_down = false;
        for (call, word) in calls {
            let word = match is_down {
                true => NOT_TRIED.to_owned(),
                false => match self.api.call(call).await {
                    Ok(answer) => answer.outcome().unwrap_or_else(|| word.to_owned()),
                    Err(problem) if is_one => return Err(problem),
                    Err(problem) => {
                        is_down = problem.status >= 500;
                        problem.code.clone()
                    }
                },
            };
            match done.iter_mut().find(|(known, _)| *known == word) {
                Some((_, count)) => *count += 1,
                None => done.push((word, 1)),
            }
        }
        Ok(went(to, &done))
    }
}
