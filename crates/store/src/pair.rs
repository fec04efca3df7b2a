//! Redis beside a ledger in an SQL server: shared by several processes, without losing acknowledged jobs.

use crate::redis::{self, Redis};
use crate::sql;
use duetime_core::Error;
use duetime_core::engine::Stores;
use duetime_core::ports::{BROKER, PutIf, Registry};
use std::sync::Arc;

/// Both stores, and what to report about them.
#[derive(Debug)]
pub struct Pair {
    redis: Redis,
    ledger: sql::Store,
}

impl Pair {
    /// Connects to both.
    ///
    /// # Errors
    /// Same as [`Redis::connect`] and [`sql::connect`]; [`Error::Unusable`] if this Redis holds jobs without a ledger, or of
    /// another ledger.
    pub async fn connect(broker: &str, ledger: &str, options: sql::Options) -> Result<Self, Error> {
        let ledger = sql::connect(ledger, options).await?;
        let beside = Some(name(&ledger).await?);
        let redis = Redis::connect(broker, redis::Options { beside, ..redis::Options::default() }).await?;
        Ok(Self { redis, ledger })
    }

    /// Settings that should be changed.
    pub fn warnings(&self) -> &[String] {
        self.redis.warnings()
    }

    /// The jobs that this setup can lose, and when.
    pub fn loss(&self) -> String {
        let redis = self.redis.loss();
        format!("no acknowledged job; if Redis loses data ({redis}), jobs that were running may run again")
    }

    /// Everything that an engine needs.
    pub fn stores(self) -> Stores {
        self.redis.stores().beside(Arc::new(self.ledger))
    }
}

/// A description with its location, without users and passwords.
impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} beside {}", self.redis, self.ledger)
    }
}

/// The ledger's unique name, created together with it.
async fn name(registry: &dyn Registry) -> Result<String, Error> {
    loop {
        if let Some(document) = registry.document(BROKER, sql::NAME).await? {
            return Ok(document.body);
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| Error::Unavailable(format!("the system has no random numbers: {error}")))?;
        let body = format!("{:016x}", u64::from_le_bytes(random));
        if let PutIf::Stored(_) = registry.put_if(BROKER, sql::NAME, &body, 0).await? {
            return Ok(body);
        }
    }
}
