//! The files that pages load. Their paths hold a hash of the content, so browsers may keep them.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use std::sync::LazyLock;

use crate::access::hex;

pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("css", "text/css; charset=utf-8", include_str!("assets/style.css")));
pub(super) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("js", "text/javascript; charset=utf-8", include_str!("assets/live.js")));
static ICON: LazyLock<Asset> = LazyLock::new(|| Asset::new("svg", "image/svg+xml", include_str!("assets/icon.svg")));
/// For 1 to 9 things that need attention, and for more.
static ICONS_BAD: LazyLock<[Asset; 10]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let count = if at < 9 { (at + 1).to_string() } else { "9+".to_owned() };
        Asset::new("svg", "image/svg+xml", &include_str!("assets/icon-bad.svg").replace("{}", &count))
    })
});

/// The icon of a page, with the number of things that need attention.
pub(super) fn icon(wrong: u64) -> &'static Asset {
    if wrong == 0 { &ICON } else { &ICONS_BAD[wrong.min(10) as usize - 1] }
}

/// A file.
pub(super) struct Asset {
    path: String,
    media_type: &'static str,
    content: String,
}

impl Asset {
    fn new(extension: &str, media_type: &'static str, content: &str) -> Self {
        let hash = hex(&digest(&SHA256, content.as_bytes()).as_ref()[..8]);
        Self { path: format!("/assets/{hash}.{extension}"), media_type, content: content.to_owned() }
    }

    /// Its path.
    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

pub(super) async fn asset(Path(file): Path<String>) -> Response {
    let mut all = [&*STYLE, &*SCRIPT, &*ICON].into_iter().chain(&*ICONS_BAD);
    let Some(found) = all.find(|asset| asset.path.strip_prefix("/assets/") == Some(&file)) else {
        return (StatusCode::NOT_FOUND, "this file is of another version: reload the page").into_response();
    };
    let kept = "public, max-age=31536000, immutable";
    ([(CONTENT_TYPE, found.media_type), (CACHE_CONTROL, kept)], found.content.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use super::icon;

    #[test]
    fn the_icon_has_the_count() {
        let shown = |wrong| icon(wrong).content.split_once("</text>").map(|(text, _)| text.rsplit_once('>').unwrap().1);
        assert_eq!([0, 1, 9, 10, 99].map(shown), [None, Some("1"), Some("9"), Some("9+"), Some("9+")]);
    }
}
