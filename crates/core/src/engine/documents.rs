//! Documents about the broker, which all processes read.

use crate::error::Error;
use crate::ports::{BROKER, PutIf, Registry};

pub(super) async fn document(registry: &dyn Registry, name: &str) -> Result<Option<String>, Error> {
    Ok(registry.document(BROKER, name).await?.map(|document| document.body))
}

pub(super) async fn set_document(registry: &dyn Registry, name: &str, body: &str) -> Result<(), Error> {
    loop {
        let version = registry.document(BROKER, name).await?.map_or(0, |document| document.version);
        if let PutIf::Stored(_) = registry.put_if(BROKER, name, body, version).await? {
            return Ok(());
        }
    }
}
