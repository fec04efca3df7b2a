//! A table of another program, whose rows show which of its jobs are waiting, for `duetime adopt`. It is only read.

use super::call::{self, Plain};
use super::connection::{Database, Words};
use super::fault::Fault;
use super::server::open;
use super::value::Row;
use duetime_core::Error;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

/// Maximum bytes of the name of a schema, a table or a column.
const NAME_BYTES_MAX: usize = 64;
/// Maximum bytes of an id, and of the value of a status.
const VALUE_BYTES_MAX: usize = 255;

/// A table with a column of ids and one of states. Rows in one of these states are waiting.
pub struct Foreign {
    database: Arc<dyn Database>,
    schema: Option<String>,
    table: String,
    id: String,
    status: String,
    waiting: String,
    known: OnceLock<Columns>,
}

impl Foreign {
    /// Prepares access to a table; it connects with the first query. The URL is one that [`connect`](super::connect)
    /// accepts. The table may be qualified by its schema, such as `shop.jobs`. Rows whose column `status` is in `waiting`
    /// are waiting.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an argument is malformed.
    pub fn new(url: &str, table: &str, id: &str, status: &str, waiting: &str) -> Result<Self, Error> {
        let (schema, table) = table.split_once('.').map_or((None, table), |(schema, table)| (Some(schema), table));
        let names = [("table", table), ("id-column", id), ("status-column", status)];
        for (what, name) in names.into_iter().chain(schema.map(|schema| ("table", schema))) {
            if !is_name(name) {
                let expected = format!("a name of letters, digits and _, of at most {NAME_BYTES_MAX} bytes");
                return Err(Error::invalid(what, expected, format!("{name:?}")));
            }
        }
        if !is_plain(waiting) {
            return Err(Error::invalid("status", "letters, digits, and any of _-.:", format!("{waiting:?}")));
        }
        let database = open(url, 1).map_err(|error| match error {
            Error::Invalid(invalid) => Error::invalid("rows", invalid.expected, invalid.got),
            error => error,
        })?;
        let [table, id, status, waiting] = [table, id, status, waiting].map(str::to_owned);
        Ok(Self { database, schema: schema.map(str::to_owned), table, id, status, waiting, known: OnceLock::new() })
    }

    /// Returns which of these ids belong to waiting rows, spelled as in the database.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such table; a [retryable](Error::is_retryable) error if the server does not answer.
    pub async fn waiting<'a>(&self, ids: &[&'a str]) -> Result<HashSet<&'a str>, Error> {
        let known = self.known().await?;
        let literals: Vec<String> = ids.iter().filter_map(|id| known.ids.literal(id)).collect();
        if literals.is_empty() {
            return Ok(HashSet::new());
        }
        let Words { quote, text, .. } = self.words();
        let (Self { table, id, status, .. }, waiting) = (self, &known.waiting);
        let schema = self.schema.as_ref().map_or_else(String::new, |schema| format!("{quote}{schema}{quote}."));
        let statement = format!(
            "SELECT CAST({quote}{id}{quote} AS {text}) FROM {schema}{quote}{table}{quote} \
             WHERE {quote}{id}{quote} IN ({}) AND {quote}{status}{quote} = {waiting}",
            literals.join(", ")
        );
        let rows = self.ask(statement).await?;
        let found: Result<HashSet<Arc<str>>, Fault> = rows.iter().map(|row| row.text(0)).collect();
        let found = found.map_err(Fault::into_error)?;
        Ok(ids.iter().copied().filter(|&id| found.contains(id)).collect())
    }

    /// Reads the types of the two columns from the database, the first time. This also checks that the table exists.
    async fn known(&self) -> Result<&Columns, Error> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let Words { text, schema, .. } = self.words();
        let Self { table, id, status, waiting, .. } = self;
        let schema = self.schema.as_ref().map_or_else(|| (*schema).to_owned(), |schema| format!("'{schema}'"));
        let statement = format!(
            "SELECT CAST(column_name AS {text}), CAST(data_type AS {text}) FROM information_schema.columns \
             WHERE table_schema = {schema} AND table_name = '{table}' AND column_name IN ('{id}', '{status}')"
        );
        let rows = self.ask(statement).await?;
        let columns: Result<Vec<_>, Fault> = rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect();
        let columns = columns.map_err(Fault::into_error)?;
        let of = |name: &str| columns.iter().find(|(column, _)| column.eq_ignore_ascii_case(name));
        match (of(id), of(status)) {
            (Some((_, ids)), Some((_, states))) => {
                // In a column of numbers, MySQL compares any word as 0.
                let waiting = Values::of(states).literal(waiting).ok_or_else(|| {
                    let expected = format!("a value of the column {status}, which is of the type {states}");
                    Error::invalid("status", expected, format!("{waiting:?}"))
                })?;
                Ok(self.known.get_or_init(|| Columns { ids: Values::of(ids), waiting }))
            }
            _ => {
                let expected = format!("one that this user can read, with the columns {id} and {status}");
                Err(Error::invalid("table", expected, format!("{table:?} in {}", self.database.shown())))
            }
        }
    }

    fn words(&self) -> &'static Words {
        &self.database.dialect().foreign
    }

    async fn ask(&self, statement: String) -> Result<Vec<Row>, Error> {
        let question =
            Plain::<String, Vec<Row>, false>(statement, |session, statement| session.connection.ask(statement));
        call::call(&*self.database, question).await
    }
}

/// What is known of the columns.
struct Columns {
    ids: Values,
    /// The status of waiting rows, as an SQL literal.
    waiting: String,
}

/// The values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Numbers,
    Uuids,
    Texts,
}

impl Values {
    /// Derives it from the type of the column.
    fn of(kind: &str) -> Self {
        let kind = kind.to_ascii_lowercase();
        let is_number = ["int", "numeric", "decimal", "real", "double", "float"].iter().any(|part| kind.contains(part));
        match kind.as_str() {
            _ if is_number => Self::Numbers,
            "uuid" => Self::Uuids,
            _ => Self::Texts,
        }
    }

    /// The value as an SQL literal. `None` if the column cannot hold it.
    fn literal(self, value: &str) -> Option<String> {
        match self {
            // Without quotes, so that the column's index is used.
            Self::Numbers => {
                let number = value.parse().ok().filter(|number| NUMBERS.contains(number));
                number.map(|number: i128| number.to_string())
            }
            Self::Uuids => is_uuid(value).then(|| format!("'{value}'")),
            Self::Texts => is_plain(value).then(|| format!("'{value}'")),
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// The range of signed and unsigned integer columns.
const NUMBERS: std::ops::RangeInclusive<i128> = i64::MIN as i128..=u64::MAX as i128;

/// Whether the text can be quoted unchanged.
fn is_plain(value: &str) -> bool {
    let is_allowed = |byte: u8| (b' '..=b'~').contains(&byte) && !b"'\\".contains(&byte);
    (1..=VALUE_BYTES_MAX).contains(&value.len()) && value.bytes().all(is_allowed)
}

fn is_uuid(id: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    };
    id.len() == 36 && id.bytes().enumerate().all(is_right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_column_holds_stands_in_a_statement() {
        let literal = |kind: &str, id: &str| Values::of(kind).literal(id);
        for kind in ["bigint", "int", "integer", "smallint", "numeric"] {
            assert_eq!(literal(kind, "9007199254740993").as_deref(), Some("9007199254740993"));
            assert_eq!(literal(kind, "-1").as_deref(), Some("-1"));
            assert_eq!(literal(kind, "012").as_deref(), Some("12"), "as a column shows it that fills up with zeros");
            assert_eq!(literal(kind, "18446744073709551615").as_deref(), Some("18446744073709551615"));
            for other in ["", "1 ", "1e3", "abc", "1 OR 1=1", "99999999999999999999"] {
                assert_eq!(literal(kind, other), None, "{other}");
            }
        }
        let uuid = "0b2a1c3d-4e5f-6789-abcd-ef0123456789";
        assert_eq!(literal("uuid", uuid), Some(format!("'{uuid}'")));
        assert_eq!(literal("uuid", &uuid.to_uppercase()), None);
        assert_eq!(literal("uuid", "order-7"), None);
        for kind in ["varchar", "character varying", "text", "char"] {
            assert_eq!(literal(kind, "order-7.a:b_c").as_deref(), Some("'order-7.a:b_c'"));
            assert_eq!(literal(kind, "a b;@/1").as_deref(), Some("'a b;@/1'"));
            for other in ["", "'", "a'b", "a\\", "größe", "a\0", &"a".repeat(256)] {
                assert_eq!(literal(kind, other), None, "{other}");
            }
        }
    }

    #[tokio::test]
    async fn names_are_refused_that_are_more_than_names() {
        let url = "mysql://root@127.0.0.1:1/shop";
        let open = |table: &str, id: &str, status: &str, waiting: &str| {
            Foreign::new(url, table, id, status, waiting).map(drop).map_err(|error| error.to_string())
        };
        open("jobs", "id", "status", "1").unwrap();
        open("shop.jobs", "id", "status", "to-do").unwrap();
        for (table, id, status, waiting, what) in [
            ("jobs`; DROP TABLE jobs", "id", "status", "1", "table"),
            ("a.b.c", "id", "status", "1", "table"),
            ("", "id", "status", "1", "table"),
            (".jobs", "id", "status", "1", "table"),
            ("jobs", "i\"d", "status", "1", "id-column"),
            ("jobs", "id", "status=1 OR 1", "1", "status-column"),
            ("jobs", "id", "status", "1' OR '1'='1", "status"),
        ] {
            let error = open(table, id, status, waiting).unwrap_err();
            assert!(error.starts_with(&format!("`{what}` must be")), "{error}");
        }
        let Err(error) = Foreign::new("redis://u:secret@a", "jobs", "id", "status", "1") else { panic!("no database") };
        assert!(error.to_string().starts_with("`rows` must be a URL: mysql://"), "{error}");
    }
}
