//! Connects to Redis.

use super::bus::{self, Bus};
use super::handle::{Redis, Tasks};
use super::jobs::Jobs;
use super::keys::Keys;
use super::link::Link;
use super::options::Options;
use super::partitions::Partitions;
use super::requests::Requests;
use super::usage::{self, Usage};
use super::wake::{self, Channels, Waker};
use super::{checks, fault, url};
use crate::keep::keep;
use duetime_core::Error;
use duetime_core::engine::Stores;
use std::sync::Arc;
use tokio::sync::oneshot;

impl Redis {
    /// Connects, checks that the server is suitable, and subscribes.
    ///
    /// The URL is `redis://[user:password@]host[:port][/db][?namespace=name]`, `rediss://` for TLS,
    /// `redis+sentinel://host:port,…/master[/db]` or `redis+cluster://host:port,…`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a malformed URL; [`Error::Unavailable`] if Redis does not answer; [`Error::Unusable`] if it is
    /// too old, refuses the password, or has data in another format.
    pub async fn connect(url: &str, options: Options) -> Result<Self, Error> {
        // If another provider was installed before, that one is fine, too.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address = url::Address::parse(url)?;
        let link = Arc::new(Link::new(&address)?);
        let fitness = checks::check(&link).await.map_err(fault::at_start)?;
        let partitions = checks::partitions(&link, &address).await?;
        let keys = Keys::new(&address.namespace, partitions);
        checks::keep_side(&link, &keys, options.beside.as_deref()).await?;
        let waker = Arc::new(Waker::default());
        let (begun, has_begun) = oneshot::channel();
        let channels = Channels { queues: keys.channel(), locks: keys.lock_channel() };
        let requests = Requests::new();
        let bus = Arc::new(Bus::new(keys.events_channel(), requests.unique()));
        let mut begun = Some(begun);
        let usage = Arc::new(Usage::default());
        usage.ask(&link).await?;
        let tasks = [
            keep("usage", {
                let (link, usage) = (link.clone(), usage.clone());
                move || usage::watch(link.clone(), usage.clone())
            }),
            keep("listen", {
                let (link, waker) = (link.clone(), waker.clone());
                move || wake::listen(link.clone(), channels.clone(), waker.clone(), begun.take())
            }),
            keep("receive", {
                let (link, bus) = (link.clone(), bus.clone());
                move || bus::receive(link.clone(), bus.clone())
            }),
            keep("publish", {
                let (link, bus) = (link.clone(), bus.clone());
                move || bus::publish(link.clone(), bus.clone())
            }),
        ];
        let partitions = Arc::new(Partitions::new(link, keys, options, requests, waker));
        partitions.read_clock().await?;
        let redis = Self {
            jobs: Arc::new(Jobs::new(partitions.clone(), bus.clone(), usage)),
            partitions,
            last_fence: Arc::default(),
            bus,
            fitness: Arc::new(fitness),
            _tasks: Arc::new(Tasks(tasks)),
        };
        // It keeps trying in the background after this wait.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), has_begun).await;
        Ok(redis)
    }

    /// Everything that an engine needs, if Redis is its own ledger.
    pub fn stores(self) -> Stores {
        let redis = Arc::new(self);
        Stores {
            broker: redis.clone(),
            ledger: redis.clone(),
            reports: redis.clone(),
            leases: None,
            inbox: None,
            registry: redis.clone(),
            locks: redis.clone(),
            events: Some(redis),
        }
    }
}

/// Checks the form of a Redis URL, without connecting.
///
/// # Errors
/// [`Error::Invalid`], without the password.
pub fn check_url(text: &str) -> Result<(), Error> {
    url::Address::parse(text).map(drop)
}
