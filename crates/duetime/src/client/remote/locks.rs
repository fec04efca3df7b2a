//! Locks of a server.

use super::Remote;
use super::transport::Call;
use crate::error::Error;
use duetime_core::api::{self, LockBody, Parameters, Span, path_segment};
use duetime_core::engine::{LockList, LockRequest};
use duetime_core::model::name::{check_lock, check_owner};
use duetime_core::ports::{Grant, Holding, Released};
use hyper::Method;
use std::sync::Arc;

impl Remote {
    pub(crate) async fn acquire_lock(&self, request: LockRequest) -> Result<Grant, Error> {
        let call = Call::new(Method::PUT, lock_path(&request.name)?).json(&api::Lock::from(&request))?;
        let reply = self.transport.send(call.wait(request.wait).repeats(true)).await?;
        reply.read()
    }

    pub(crate) async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl: Span) -> Result<Grant, Error> {
        let call = Call::new(Method::PUT, lock_path(name)?).json(&api::Lock::renewal(owner, fence, ttl))?;
        self.transport.send(call.repeats(true)).await?.read()
    }

    pub(crate) async fn release_lock(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<(), Error> {
        check_owner(owner)?;
        let query = Parameters { owner: Some(owner.clone()), fence: Some(fence), ..Parameters::default() };
        let call = Call::new(Method::DELETE, format!("{}?{query}", lock_path(name)?));
        self.transport.send(call.repeats(true)).await?.done()
    }

    pub(crate) async fn release_all(&self, owner: &str) -> Result<Released, Error> {
        check_owner(owner)?;
        let query = Parameters { owner: Some(Arc::from(owner)), ..Parameters::default() };
        let call = Call::new(Method::DELETE, format!("/v1/locks?{query}"));
        self.transport.send(call).await?.read()
    }

    pub(crate) async fn inspect(&self, name: &str) -> Result<Option<Holding>, Error> {
        Ok(self.transport.send(Call::get(lock_path(name)?)).await?.read::<LockBody>()?.holding())
    }

    pub(crate) async fn list_locks(&self, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
        let query = Parameters { cursor: cursor.map(str::to_owned), limit: Some(limit), ..Parameters::default() };
        self.transport.send(Call::get(format!("/v1/locks?{query}"))).await?.read()
    }
}

/// Checked here because an invalid name may lead to another path.
fn lock_path(name: &str) -> Result<String, Error> {
    check_lock(name)?;
    Ok(format!("/v1/locks/{}", path_segment(name)))
}
