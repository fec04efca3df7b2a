//! A line of a file of jobs: a job as in the body of a push over HTTP, with its queue beside it.

use duetime_core::api::Push;
use duetime_core::{Error, NewJob};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use std::fmt;
use std::sync::Arc;

/// What a line says.
pub(super) struct Line<'a> {
    queue: Option<Arc<str>>,
    push: Push<'a>,
}

impl Line<'_> {
    /// The job; for this queue where the line names none.
    pub(super) fn into_job(self, queue: &Arc<str>) -> Result<NewJob, Error> {
        self.push.into_job(self.queue.unwrap_or_else(|| queue.clone()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Line<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Line<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Line<'de>, A::Error> {
        let mut queue = None;
        let rest = Rest { fields, queue: &mut queue };
        let push = Push::deserialize(MapAccessDeserializer::new(rest))?;
        Ok(Line { queue, push })
    }
}

/// All fields but the queue. To flatten the push into the line would lose how its payload is written, and let unknown
/// fields pass.
struct Rest<'a, A> {
    fields: A,
    queue: &'a mut Option<Arc<str>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.fields.next_key::<String>()? {
            if key != "queue" {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            if self.queue.replace(self.fields.next_value()?).is_some() {
                return Err(de::Error::duplicate_field("queue"));
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.fields.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> Result<NewJob, String> {
        let line: Line<'_> = duetime_core::api::read(text).map_err(|unread| unread.to_string())?;
        line.into_job(&"else".into()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_line_is_a_push_with_its_queue() {
        let named = job(r#"{"payload": {"b" : 1.0,"a":"\u00fc"}, "queue": "orders", "kind": "k"}"#).unwrap();
        assert_eq!(
            (&*named.queue, &*named.kind, &*named.payload),
            ("orders", "k", &br#"{"b" : 1.0,"a":"\u00fc"}"#[..])
        );
        assert_eq!(&*job(r#"{"payload": 1}"#).unwrap().queue, "else");
    }

    #[test]
    fn what_is_no_push_is_refused() {
        for (text, why) in [
            (r#"{"payload":1,"queue":"a","queue":"b"}"#, "`queue` to be given once"),
            (r#"{"payload":1,"payload":2}"#, "`payload` to be given once"),
            (r#"{"payload":1,"que":"a"}"#, "unknown field `que`"),
            (r#"{"payload":1,"queue":7}"#, "to be a string"),
            (r#"{"queue":"a"}"#, "neither"),
            ("[1]", "to be an object"),
            (r#"{"payload":1} 2"#, "trailing characters"),
        ] {
            let error = job(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
