//! `duetime migrate`.

use crate::cli::exit::{Failure, Result, SCHEMA_OLD};
use crate::cli::output;
use duetime_store::sql::{self, Schema};
use serde_json::json;
use std::io::Write;

/// Create or update the tables of a ledger.
///
/// A server does the same when it starts, unless it has --no-migrate. Running it on several machines at once is safe: one
/// migrates, and the others wait.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime migrate --ledger mysql://root:secret@db/duetime
  duetime migrate --ledger postgres:// --print-sql | psql -v ON_ERROR_STOP=1 postgres://admin@db/duetime")]
pub(crate) struct Args {
    /// Database: mysql://user:password@host:port/database or postgres://…; with --print-sql, `mysql://` or `postgres://` is
    /// enough
    #[arg(long, value_name = "URL", env = "DUETIME_LEDGER", hide_env_values = true)]
    ledger: String,
    /// Change nothing: exit with 0 if the tables are up to date, with 78 if a migration is missing
    #[arg(long, conflicts_with = "print_sql")]
    check: bool,
    /// Print the SQL without connecting, for an administrator to run before `serve --no-migrate`
    #[arg(long)]
    print_sql: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "print_sql")]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result {
    if args.print_sql {
        return Ok(std::io::stdout().lock().write_all(sql::script(&args.ledger)?.as_bytes())?);
    }
    let schema = if args.check { sql::check(&args.ledger).await? } else { sql::migrate(&args.ledger).await? };
    let is_old = schema.found < schema.known;
    if args.json {
        let Schema { found, known } = schema;
        output::json(&json!({ "schema": found, "needed": known, "migrated": is_old && !args.check }))?;
    } else {
        tell(schema, args.check)?;
    }
    if args.check && is_old { Err(Failure::quiet(SCHEMA_OLD)) } else { Ok(()) }
}

fn tell(Schema { found, known }: Schema, is_check: bool) -> Result {
    match (found < known, is_check) {
        (false, _) => output::say(format_args!("schema {found} is current")),
        (true, false) => output::say(format_args!("migrated from schema {found} to {known}")),
        (true, true) => {
            output::say(format_args!("the schema is {found}, but this version needs {known}: run `duetime migrate`"))
        }
    }
}
