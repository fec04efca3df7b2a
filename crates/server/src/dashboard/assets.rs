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
static ICON_BAD: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("svg", "image/svg+xml", include_str!("assets/icon-bad.svg")));

/// The icon of a page, with a red dot if something needs attention.
pub(super) fn icon(wrong: u64) -> &'static Asset {
    if wrong > 0 { &ICON_BAD } else { &ICON }
}

/// A file.
pub(super) struct Asset {
    path: String,
    media_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(extension: &str, media_type: &'static str, content: &'static str) -> Self {
        let hash = hex(&digest(&SHA256, content.as_bytes()).as_ref()[..8]);
        Self { path: format!("/assets/{hash}.{extension}"), media_type, content }
    }

    /// Its path.
    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

pub(super) async fn asset(Path(file): Path<String>) -> Response {
    let all = [&STYLE, &SCRIPT, &ICON, &ICON_BAD];
    let Some(found) = all.into_iter().find(|asset| asset.path.strip_prefix("/assets/") == Some(&file)) else {
        return (StatusCode::NOT_FOUND, "this file is of another version: reload the page").into_response();
    };
    let kept = "public, max-age=31536000, immutable";
    ([(CONTENT_TYPE, found.media_type), (CACHE_CONTROL, kept)], found.content).into_response()
}
