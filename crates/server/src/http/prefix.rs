//! The path under which an application has mounted the dashboard and the API.
//!
//! Pages and answers name paths from the root, as our own server has them. What leaves a mounted router gets the prefix here, in one place:
//! the attributes of pages that hold paths, and the header `location`. So no page has to know where it is.

use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION};
use axum::response::Response;
use std::sync::Arc;

/// Attributes of pages that hold paths.
const ATTRIBUTES: [&str; 4] = ["href", "src", "action", "data-stream"];

/// Empty, or a path such as `/duetime`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix(Arc<str>);

impl Prefix {
    /// What axum has taken from the beginning of the path.
    pub(super) fn of(request: &Request) -> Self {
        let rest = request.uri().path();
        let whole = request.extensions().get::<OriginalUri>().map_or(rest, |OriginalUri(uri)| uri.path());
        // `/duetime` is the page `/`, too.
        let prefix = whole.strip_suffix(rest).or((rest == "/").then_some(whole)).unwrap_or_default();
        Self(prefix.trim_end_matches('/').into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts it before the paths that a response names.
    pub(super) async fn onto(&self, mut response: Response) -> Response {
        if self.0.is_empty() {
            return response;
        }
        if let Some(to) = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).filter(|to| is_path(to)) {
            // Both parts were headers before.
            let to = HeaderValue::try_from(format!("{}{}", self.0, below(to))).expect("paths are visible ASCII");
            response.headers_mut().insert(LOCATION, to);
        }
        let kind = response.headers().get(CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        // Pages are in memory already.
        let page = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let page = self.onto_page(&String::from_utf8_lossy(&page));
        parts.headers.remove(CONTENT_LENGTH);
        Response::from_parts(parts, Body::from(page))
    }

    /// A page escapes quotes in texts and values, so these can only be attributes.
    fn onto_page(&self, page: &str) -> String {
        ATTRIBUTES.iter().fold(page.to_owned(), |page, attribute| {
            let path = format!("{attribute}=\"/");
            let mut parts = page.split(&path);
            let mut all = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                // `//host` is another server.
                let prefix = if part.starts_with('/') { "" } else { &*self.0 };
                let slash = if part.starts_with(['"', '?']) { "" } else { "/" };
                all.extend([*attribute, "=\"", prefix, slash, part]);
            }
            all
        })
    }
}

/// The path without its slash if it is the root's: not each way to mount a router answers to a slash at the end.
fn below(path: &str) -> &str {
    path.strip_prefix('/').filter(|rest| rest.is_empty() || rest.starts_with('?')).unwrap_or(path)
}

fn is_path(to: &str) -> bool {
    to.starts_with('/') && !to.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Uri;

    fn of(whole: &str, rest: &str) -> String {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = rest.parse().unwrap();
        request.extensions_mut().insert(OriginalUri(whole.parse::<Uri>().unwrap()));
        Prefix::of(&request).as_str().to_owned()
    }

    #[test]
    fn a_prefix_is_what_the_path_has_more() {
        for (whole, rest, prefix) in [
            ("/jobs", "/jobs", ""),
            ("/", "/", ""),
            ("/duetime/jobs?tag=/x", "/jobs?tag=/x", "/duetime"),
            ("/duetime", "/", "/duetime"),
            ("/duetime/", "/", "/duetime"),
            ("/a/b/v1/jobs", "/v1/jobs", "/a/b"),
        ] {
            assert_eq!(of(whole, rest), prefix, "{whole}");
        }
    }

    #[tokio::test]
    async fn paths_of_a_page_get_the_prefix() {
        let page = |html: &str| {
            let mut response = Response::new(Body::from(html.to_owned()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
            response.headers_mut().insert(LOCATION, HeaderValue::from_static("/jobs/7?done=a.1"));
            response
        };
        let html = r##"<a href="/">/</a><a href="/?language=de"></a><a href="/jobs">a href=&quot;/x&quot;</a><a href="#main"></a><a href="//other/"></a>"##;
        let prefix = Prefix("/duetime".into());
        let answer = prefix.onto(page(html)).await;
        assert_eq!(answer.headers()[LOCATION], "/duetime/jobs/7?done=a.1");
        let text = String::from_utf8(to_bytes(answer.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap();
        let expected = r##"<a href="/duetime">/</a><a href="/duetime?language=de"></a><a href="/duetime/jobs">a href=&quot;/x&quot;</a><a href="#main"></a><a href="//other/"></a>"##;
        assert_eq!(text, expected);
        assert_eq!(Prefix::default().onto(page(html)).await.headers()[LOCATION], "/jobs/7?done=a.1");
    }
}
