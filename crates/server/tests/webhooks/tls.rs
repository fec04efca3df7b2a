//! Endpoints with TLS: by HTTP/2 and HTTP/1.1, with a named root; refused if the certificate is not trusted.

use super::server::{Server, result};
use crate::certificate::Certificate;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

impl Certificate {
    /// An endpoint that speaks one protocol, and reports which; its URL, and its task.
    async fn serve(&self, protocol: &'static str) -> (String, AbortOnDropHandle<()>) {
        let certificate = CertificateDer::from_pem_file(self.path("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that does not trust the certificate disconnects.
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let service = service_fn(|request: Request<Incoming>| async move {
                    let said = format!("by {:?}", request.version());
                    Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(said))))
                });
                let stream = TokioIo::new(stream);
                if protocol == "h2" {
                    tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service));
                } else {
                    tokio::spawn(http1::Builder::new().serve_connection(stream, service));
                }
            }
        }));
        (url, task)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_is_named_is_trusted_and_no_other() {
    let certificate = Certificate::new();
    let (root, strange) = (certificate.path("root.pem"), Certificate::new());
    let server = Server::with(&["--webhook-allow-private", "--webhook-ca", root.to_str().unwrap()]).await;
    for (protocol, version) in [("h2", "HTTP/2.0"), ("http/1.1", "HTTP/1.1")] {
        let (url, _task) = certificate.serve(protocol).await;
        let queue = protocol.replace('/', "-");
        server.set(&queue, json!({"target": {"url": url}})).await;
        let id = server.push(&queue, "{}").await;
        assert_eq!(result(&server.completed(id).await), json!({"status": 200, "body": format!("by {version}")}));
    }
    let (url, _task) = strange.serve("http/1.1").await;
    server.set("strange", json!({"max_attempts": 1, "target": {"url": url}})).await;
    let id = server.push("strange", "{}").await;
    let said = server.failed(id).await;
    assert!(said.starts_with("not connected: ") && said.contains("certificate"), "{said}");
}
