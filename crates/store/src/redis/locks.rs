//! Locks of all processes of a namespace. They are all in one slot of a Cluster, in a few keys that every script uses.
//!
//! Requests are remembered, so that they can be repeated after a lost reply. A repeat gets the same answer, and is not
//! carried out again if it arrives late.
//!
//! A new fence is larger than all fences that Redis knows and that this process was given. Beside a ledger, fences begin at
//! the floor of a new generation if Redis was emptied, restarted or replaced. Without a ledger they are also at least the
//! time in milliseconds. They keep growing as long as the clock of Redis does, because at most one fence is given each
//! millisecond.
//!
//! Grants, tickets and lost grants are kept until they are swept; a request is forgotten after a minute.

use super::call::Call;
use super::call::Text;
use super::checks;
use super::clock::Late;
use super::handle::Redis;
use super::reply::Reply;
use super::requests::Request;
use super::scripts::{self, Script};
use async_trait::async_trait;
use duetime_core::Error;
use duetime_core::json::Timestamp;
use duetime_core::model::id;
use duetime_core::ports::{Acquire, Acquired, Grant, Holding, LockList, Locks, Released, TurnWake};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long nothing is granted after fences have begun by the clock, until the clock is past all fences given before.
const FENCE_PAUSE: Duration = Duration::from_millis(2);
/// Maximum number of locks that one script releases or sweeps.
const STEP_LOCKS: u64 = 100;

impl Redis {
    /// Runs a script for locks, and returns its answer after the clock.
    async fn run_locks(
        &self,
        script: &'static Script,
        request: Option<&Request<'_>>,
        arguments: impl FnOnce(&mut Text) + Send,
    ) -> Result<Reply, Error> {
        let keys = self.partitions.keys.locks(request.map_or("", |request| &request.key));
        let mut call = Call { script, keys, arguments: Text::default() };
        match self.partitions.clock.given() {
            Some(now) => call.arguments.number(now),
            None => call.arguments.push(b""),
        }
        call.arguments.push(self.partitions.keys.lock_channel().as_bytes());
        arguments(&mut call.arguments);
        let sent = self.partitions.clock.mark();
        let mut reply = Reply::new(self.partitions.link.call(&call).await?)?;
        self.partitions.clock.read(
            self.partitions.keys.elsewhere(),
            reply.number()?,
            sent,
            self.partitions.clock.mark(),
        );
        Ok(reply)
    }

    /// Requests a lock; returns what is stored instead of the last fence if fences have not begun.
    async fn ask(&self, acquire: &Acquire) -> Result<Result<Acquired, String>, Error> {
        let request = self.partitions.requests.begin();
        let asked = self.run_locks(&scripts::LOCK_ACQUIRE, Some(&request), |arguments| {
            push_claim(arguments, &acquire.name, &acquire.owner);
            arguments.number(acquire.ttl_ms);
            arguments.flag(acquire.waiting);
            arguments.number(request.number);
            arguments.number(self.last_fence.load(Ordering::Relaxed));
            arguments.push(self.partitions.side().as_bytes());
            arguments.flag(self.partitions.is_ledger());
        });
        let mut reply = asked.await?;
        let (fence, first, second) = (unsigned(&mut reply)?, unsigned(&mut reply)?, unsigned(&mut reply)?);
        if fence == 0 {
            return Ok(match second {
                0 => Err(reply.text()?),
                _ => Ok(Acquired::Held { expires_in_ms: first, again_in_ms: second }),
            });
        }
        self.last_fence.fetch_max(fence, Ordering::Relaxed);
        Ok(Ok(Acquired::Granted { grant: grant(fence, first), is_new: second != 0 }))
    }

    /// Begins the fences, unless another process did so meanwhile.
    async fn begin_fences(&self, found: &str) -> Result<(), Error> {
        let side = self.partitions.side();
        if let Some(other) = found.split(' ').nth(1) {
            checks::check_side(other, &side)?;
        }
        let low =
            if self.partitions.is_ledger() { None } else { Some(id::floor(self.partitions.new_generation().await?)) };
        let asked = self.run_locks(&scripts::LOCK_BEGIN, None, |arguments| {
            arguments.push(found.as_bytes());
            arguments.push(side.as_bytes());
            match low {
                Some(low) => arguments.number(low),
                None => arguments.push(b""),
            }
        });
        asked.await?;
        if low.is_none() {
            tokio::time::sleep(FENCE_PAUSE).await;
        }
        Ok(())
    }

    /// If the clock was set back, grants that it gave before, when it was ahead, end within their time to live from now.
    async fn bound_grants(&self) -> Result<(), Error> {
        let was_set_back = self.partitions.clock.was_set_back(self.partitions.keys.elsewhere(), Late::Locks);
        let mut cursor = was_set_back.then(|| b"0".to_vec());
        while let Some(from) = cursor {
            let next = match self.run_locks(&scripts::LOCK_SET_BACK, None, |arguments| arguments.push(&from)).await {
                Ok(mut reply) => reply.bytes()?,
                Err(error) => {
                    self.partitions.clock.is_set_back(self.partitions.keys.elsewhere(), Late::Locks);
                    return Err(error);
                }
            };
            cursor = Some(next).filter(|next| next != b"0");
        }
        Ok(())
    }

    async fn held_locks(&self, from: &[u8], to: &[u8], limit: usize) -> Result<LockList, Error> {
        let asked = self.run_locks(&scripts::LOCK_LIST, None, |arguments| {
            arguments.push(from);
            arguments.push(to);
            arguments.number(limit as u64);
        });
        let mut reply = asked.await?;
        let next = reply.text()?;
        let mut page = LockList::default();
        if !next.is_empty() {
            page.next_cursor = Some(next.into());
        }
        while reply.len() > 0 {
            let (name, owner) = (reply.text()?.into(), reply.text()?.into());
            let grant = grant(unsigned(&mut reply)?, unsigned(&mut reply)?);
            let waiting = u32::try_from(unsigned(&mut reply)?).unwrap_or(u32::MAX);
            page.locks.push(Holding::new(name, owner, grant, waiting));
        }
        Ok(page)
    }
}

#[async_trait]
impl Locks for Redis {
    async fn start(&self, wake: TurnWake) -> Result<(), Error> {
        self.partitions.waker.watch_locks(wake);
        Ok(())
    }

    async fn acquire(&self, acquire: Acquire) -> Result<Acquired, Error> {
        loop {
            match self.ask(&acquire).await? {
                Ok(acquired) => return Ok(acquired),
                Err(found) => self.begin_fences(&found).await?,
            }
        }
    }

    async fn abandon(&self, name: &Arc<str>, owner: &Arc<str>) -> Result<(), Error> {
        self.run_locks(&scripts::LOCK_ABANDON, None, |arguments| push_claim(arguments, name, owner)).await.map(drop)
    }

    async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Option<Grant>, Error> {
        let asked = self.run_locks(&scripts::LOCK_RENEW, None, |arguments| {
            push_claim(arguments, name, owner);
            arguments.number(fence);
            arguments.number(ttl_ms);
        });
        let ends = unsigned(&mut asked.await?)?;
        Ok((ends != 0).then(|| grant(fence, ends)))
    }

    async fn release(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<bool, Error> {
        let request = self.partitions.requests.begin();
        let asked = self.run_locks(&scripts::LOCK_RELEASE, Some(&request), |arguments| {
            push_claim(arguments, name, owner);
            arguments.number(fence);
            arguments.number(request.number);
        });
        Ok(unsigned(&mut asked.await?)? != 0)
    }

    async fn release_all(&self, owner: &Arc<str>) -> Result<Released, Error> {
        let mut all = Released::default();
        loop {
            let request = self.partitions.requests.begin();
            let asked = self.run_locks(&scripts::LOCK_RELEASE_ALL, Some(&request), |arguments| {
                arguments.push(owner.as_bytes());
                arguments.number(STEP_LOCKS);
                arguments.number(request.number);
            });
            let mut reply = asked.await?;
            all.released += unsigned(&mut reply)?;
            all.lost += unsigned(&mut reply)?;
            if unsigned(&mut reply)? == 0 {
                return Ok(all);
            }
        }
    }

    async fn inspect(&self, name: &Arc<str>) -> Result<Option<Holding>, Error> {
        let name = [b"[", name.as_bytes()].concat();
        Ok(self.held_locks(&name, &name, 1).await?.locks.pop())
    }

    async fn list(&self, after: Option<&Arc<str>>, limit: usize) -> Result<LockList, Error> {
        let from = after.map_or_else(|| b"-".to_vec(), |after| [b"(", after.as_bytes()].concat());
        self.held_locks(&from, b"+", limit).await
    }

    async fn sweep(&self) -> Result<(), Error> {
        loop {
            let swept = self.run_locks(&scripts::LOCK_SWEEP, None, |arguments| arguments.number(STEP_LOCKS));
            if unsigned(&mut swept.await?)? == 0 {
                break;
            }
        }
        self.bound_grants().await
    }
}

fn push_claim(arguments: &mut Text, name: &str, owner: &str) {
    arguments.push(name.as_bytes());
    arguments.push(owner.as_bytes());
}

fn grant(fence: u64, expires_at: u64) -> Grant {
    Grant::new(fence, Timestamp(expires_at))
}

fn unsigned(reply: &mut Reply) -> Result<u64, Error> {
    let number = reply.number()?;
    u64::try_from(number).map_err(|_| Error::Damaged(format!("unexpected answer from Redis for a lock: {number}")))
}
