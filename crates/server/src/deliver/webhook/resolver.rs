//! The resolver that connections are made with: a name that resolves to an address that may not be delivered to is
//! refused, also where its other addresses would do. The very addresses that were judged are connected to, so that a
//! name cannot change in between.

use super::address::{Reach, Refused};
use super::lookup::Resolver;
use hyper_util::client::legacy::connect::dns::Name;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_service::Service;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// A resolver whose answers are judged; by default that of the system.
#[derive(Clone)]
pub(super) struct Guarded<R = Resolver> {
    inner: R,
    reach: Reach,
}

impl<R> Guarded<R> {
    pub(super) fn new(inner: R, reach: Reach) -> Self {
        Self { inner, reach }
    }
}

impl<R> Service<Name> for Guarded<R>
where
    R: Service<Name>,
    R::Response: Iterator<Item = SocketAddr>,
    R::Error: Into<AnyError>,
    R::Future: Send + 'static,
{
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = AnyError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, AnyError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (resolved, reach) = (self.inner.call(name), self.reach);
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = resolved.await.map_err(Into::into)?.collect();
            let refused = addresses.iter().find_map(|address| reach.check(address.ip()).err());
            refused.map_or_else(|| Ok(addresses.into_iter()), |refused: Refused| Err(refused.into()))
        })
    }
}

/// The refusal that an error of the client comes from.
pub(super) fn refusal<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Refused> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(refused) = error.downcast_ref() {
            return Some(refused);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::address::Rules;
    use super::*;
    use hyper_util::client::legacy::connect::HttpConnector;
    use std::future::{Ready, ready};

    /// Resolves every name to these.
    #[derive(Clone)]
    struct Fixed(Vec<SocketAddr>);

    impl Service<Name> for Fixed {
        type Response = std::vec::IntoIter<SocketAddr>;
        type Error = std::io::Error;
        type Future = Ready<Result<Self::Response, std::io::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            ready(Ok(self.0.clone().into_iter()))
        }
    }

    fn guarded(addresses: &[&str], allow_private: bool) -> Guarded<Fixed> {
        let addresses = addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect();
        Guarded::new(Fixed(addresses), Rules { allow_private }.reach(false))
    }

    #[tokio::test]
    async fn a_name_is_what_it_resolves_to() {
        let resolves = async |addresses: &[&str]| {
            guarded(addresses, false).call("inner.example".parse().unwrap()).await.map(Iterator::count)
        };
        assert_eq!(resolves(&["1.1.1.1", "2606:4700::1111"]).await.unwrap(), 2);
        for addresses in [&["127.0.0.1"][..], &["1.1.1.1", "10.0.0.1"], &["::ffff:169.254.169.254"], &["fd00::1"]] {
            let error = resolves(addresses).await.unwrap_err();
            assert!(refusal(error.as_ref()).is_some(), "{addresses:?}: {error}");
        }
        let public = guarded(&["10.0.0.1"], true).call("inner.example".parse().unwrap()).await;
        assert_eq!(public.unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_connection_to_a_refused_name_is_not_made() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut connector = HttpConnector::new_with_resolver(guarded(&["127.0.0.1"], false));
        let error = connector.call(format!("http://public.example:{port}/").parse().unwrap()).await.unwrap_err();
        assert!(refusal(&error).is_some(), "{error}");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        let mut connector = HttpConnector::new_with_resolver(guarded(&["127.0.0.1"], true));
        connector.call(format!("http://public.example:{port}/").parse().unwrap()).await.unwrap();
    }
}
