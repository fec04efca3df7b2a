//! A line of the log as JSON: one flat object, with what happened, its fields, and the fields of the spans around it.

use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// The fields that every line has, which no other may overwrite.
const OWN: [&str; 5] = ["timestamp", "level", "target", "message", "instance"];

/// Writes lines.
pub(super) struct Json(pub(super) String);

#[derive(Serialize)]
struct LogLine<'a> {
    timestamp: String,
    level: &'a str,
    target: &'a str,
    message: String,
    instance: &'a str,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> FormatEvent<S, JsonFields> for Json {
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        // The innermost span comes last and counts; the event's own fields count before all.
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let formatted = extensions.get::<FormattedFields<JsonFields>>();
            let of_span = formatted.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
            of_span.into_iter().flatten().for_each(|(name, value)| fields.put(&name, value));
        }
        event.record(&mut fields);
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        // Records from the `log` crate have their source location in fields.
        let log_target = fields.others.remove("log.target");
        ["log.module_path", "log.file", "log.line"].iter().for_each(|name| drop(fields.others.remove(*name)));
        let line = LogLine {
            timestamp,
            level: event.metadata().level().as_str(),
            target: log_target.as_ref().and_then(Value::as_str).unwrap_or(event.metadata().target()),
            message: fields.message,
            instance: &self.0,
            fields: fields.others,
        };
        writer.write_str(&serde_json::to_string(&line).map_err(|_| fmt::Error)?)?;
        writer.write_char('\n')
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, name: &str, value: Value) {
        let name = if OWN.contains(&name) { format!("field_{name}") } else { name.to_owned() };
        self.others.insert(name, value);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.put(name, value.into()),
        }
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
