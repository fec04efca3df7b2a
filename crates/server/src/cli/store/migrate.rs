//! `duetime migrate`.

use crate::cli::exit::{Failure, Result, SCHEMA_OLD};
use crate::cli::output;
use duetime_store::sql::{self, Schema};
use serde_json::json;
use std::io::Write;

/// Make or change the tables of a ledger, as this version needs them.
///
/// A server does the same when it starts, unless it is told --no-migrate. Of many that do it at once one does, and the
/// others wait for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime migrate --ledger mysql://root:secret@db/duetime
  duetime migrate --ledger postgres:// --print-sql | psql -v ON_ERROR_STOP=1 postgres://admin@db/duetime")]
pub(crate) struct Args {
    /// The ledger: mysql://user:password@host:port/database or postgres://…; for --print-sql `mysql://` or
    /// `postgres://` will do
    #[arg(long, value_name = "URL", env = "DUETIME_LEDGER", hide_env_values = true)]
    ledger: String,
    /// Change nothing: exit with 0 when the tables are those of this version, with 78 when a migration is missing
    #[arg(long, conflicts_with = "print_sql")]
    check: bool,
    /// Connect to nothing: print the SQL, for an administrator who runs it by hand before `serve --no-migrate`
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
        (false, _) => output::say(format_args!("the schema is {found}, as this version needs it")),
        (true, false) => output::say(format_args!("migrated: the schema was {found}, and is {known}")),
        (true, true) => {
            output::say(format_args!("the schema is {found}, this version needs {known}: run `duetime migrate`"))
        }
    }
}
