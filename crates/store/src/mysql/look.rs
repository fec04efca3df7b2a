//! A look that changes nothing.

use super::pool::Server;
use super::rows::whole;
use super::schema::{fit, found};
use super::session::Connection;
use crate::sql::{Database, Fault, Looked, Session, judge, number, rights};
use duetime_core::Error;

/// Whether the server is fit, how far its tables are, its clock, and what its user may not do.
pub(super) async fn look(server: &Server, may_lose: bool) -> Result<Looked, Error> {
    let mut session = server.session().await.map_err(Fault::told)?;
    session.hold();
    see(&mut session, server, may_lose).await.map_err(Fault::told)
}

async fn see(session: &mut Connection, server: &Server, may_lose: bool) -> Result<Looked, Fault> {
    fit(session, may_lose).await?;
    let schema = found(session, &server.shown).await?;
    let rows = session.ask("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000").await?;
    let row = rows.first().ok_or_else(|| Fault::damaged("the time", "nothing"))?;
    let clock = number(whole(row, 0)?)?;
    let mut missing_rights = Vec::new();
    if schema.found == schema.known {
        for (right, statement) in rights() {
            judge(&mut missing_rights, right, session.ask(&statement).await)?;
        }
    }
    Ok(Looked { shown: server.shown.to_string(), schema, clock, missing_rights })
}
