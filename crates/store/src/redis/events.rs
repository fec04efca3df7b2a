//! The event bus, as the engine uses it.

use super::bus::ANNOUNCED_FOR;
use super::handle::Redis;
use async_trait::async_trait;
use duetime_core::Error;
use duetime_core::ports::{EventBus, EventSink, Transition};
use redis::Value;
use std::sync::Arc;

#[async_trait]
impl EventBus for Redis {
    fn subscribe(&self, sink: EventSink) {
        assert!(self.bus.sink.set(sink).is_ok(), "an event bus has one sink");
    }

    async fn announce(&self, has_subscribers: bool) -> Result<bool, Error> {
        let key = self.partitions.keys.own("listening");
        let command = if has_subscribers {
            let ms = ANNOUNCED_FOR.as_millis() as u64;
            redis::cmd("SET").arg(key).arg(&self.bus.name).arg("PX").arg(ms).arg("GET").to_owned()
        } else {
            redis::cmd("GET").arg(key).to_owned()
        };
        let last = match self.partitions.link.query(&command).await? {
            Value::BulkString(name) => Some(name),
            _ => None,
        };
        Ok(self.bus.learn(last.as_deref(), has_subscribers))
    }

    fn publish(&self, transitions: Vec<Arc<Transition>>) {
        self.bus.add(transitions);
    }
}
