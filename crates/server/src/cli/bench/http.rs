//! A connection that pushes bodies made beforehand, and reads of the answer only how many jobs were taken.

use crate::cli::exit::{Failure, Result, TRY_LATER};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// Appears in the answer once for each job that was taken.
const TAKEN: &str = "\"outcome\":\"";
/// Characters of an answer in an error message.
const ANSWER_CHARS: usize = 300;

/// A kept-alive connection to one path.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    path: String,
    _driver: AbortOnDropHandle<()>,
}

impl Connection {
    pub(super) async fn open(host: &str, path: &str) -> Result<Self> {
        let stream = TcpStream::connect(host)
            .await
            .map_err(|error| Failure::new(TRY_LATER, format!("cannot connect to the server {host}: {error}")))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let driver = AbortOnDropHandle::new(tokio::spawn(async move {
            // A fault here is seen by the request that it befalls.
            let _ = connection.await;
        }));
        Ok(Self { sender, host: host.to_owned(), path: path.to_owned(), _driver: driver })
    }

    /// Pushes, and answers how many jobs were taken.
    pub(super) async fn push(&mut self, body: Bytes) -> Result<usize> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| Failure::usage(error.to_string()))?;
        self.sender.ready().await.map_err(broken)?;
        let response = self.sender.send_request(request).await.map_err(broken)?;
        let is_success = response.status().is_success();
        let answer = response.into_body().collect().await.map_err(broken)?.to_bytes();
        let text = std::str::from_utf8(&answer).unwrap_or("");
        if !is_success {
            return Err(Failure::error(format!("refused: {}", text.chars().take(ANSWER_CHARS).collect::<String>())));
        }
        Ok(text.matches(TAKEN).count())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn broken(error: hyper::Error) -> Failure {
    Failure::error(format!("the connection broke: {error}"))
}
