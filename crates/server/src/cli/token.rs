//! `duetime token`.

use super::exit::{Failure, Result};
use super::output::{self, note};
use super::time::now;
use crate::access::{Grant, Secret, Token, TokenFile};
use crate::rate::{parse_rate, show_rate};
use duetime_core::api::{Span, Timestamp};
use duetime_core::ports::Rate;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Create, list and revoke access tokens.
///
/// A server started with `--tokens FILE` requires a token with every request. It reloads the file within two seconds of a
/// change. If there are several servers, each one reads its own file. The file contains only hashes, so a lost token cannot
/// be recovered; create a new one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Rights: one of these words, for all names, or for some as in `push:orders.*`.

  push    push jobs, and nothing else
  target  push jobs with their own target
  work    reserve, take, settle and extend
  read    look at jobs, queues, schedules, events and metrics
  change  cancel, reschedule, run, retry and delete jobs; with push, also change payloads
  lock    acquire, renew, release and look at locks; names are lock names
  admin   all of these, and configure, pause, purge and delete queues, and change schedules

Examples:
  duetime token create shop --allow 'push:orders.*' --allow 'change:orders.*'
  duetime token create prometheus --allow read --expires 365d
  duetime serve --tokens tokens.toml --listen 0.0.0.0:7300 --tls-cert cert.pem --tls-key key.pem")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create a token and print it; it is not shown again
    Create(Create),
    /// List the tokens and their rights
    List(Where),
    /// Revoke a token
    Revoke(Revoke),
}

#[derive(Debug, clap::Args)]
struct Where {
    /// File of tokens, created if it does not exist
    #[arg(long, value_name = "FILE", env = "DUETIME_TOKENS", default_value = "tokens.toml")]
    tokens: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Name of the token; the audit log shows it
    #[arg(value_name = "NAME")]
    name: String,
    /// Right, such as `push:orders.*` or `read`; repeatable, or separated by commas
    #[arg(long, value_name = "RIGHT", required = true, value_delimiter = ',')]
    allow: Vec<Grant>,
    /// Maximum request rate: `100/s` or `100/s,burst=20`; by default no limit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,
    /// Lifetime, such as `90d`; by default until revoked
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
    #[command(flatten)]
    file: Where,
}

#[derive(Debug, clap::Args)]
struct Revoke {
    /// Name of the token
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    file: Where,
}

/// A token in output.
fn shown(Token { name, allow, rate, created, expires, .. }: &Token) -> Value {
    json!({ "name": name, "allow": allow, "rate": rate.as_ref().map(show_rate), "created": created, "expires": expires })
}

pub(crate) fn run(args: Args) -> Result {
    match args.action {
        Action::Create(create) => self::create(create),
        Action::List(place) => list(&place),
        Action::Revoke(revoke) => self::revoke(&revoke),
    }
}

fn create(Create { name, allow, rate, expires, file }: Create) -> Result {
    let secret =
        Secret::new().map_err(|_| Failure::error("cannot create a token: the system has no random numbers"))?;
    let now = now();
    let expires = expires.map(|Span(ms)| Timestamp(now.saturating_add(ms)));
    let token = Token { name, sha256: secret.hash(), allow, rate, created: Some(Timestamp(now)), expires };
    TokenFile::change(&file.tokens, |all| {
        if all.tokens.iter().any(|other| other.name == token.name) {
            return Err(format!("a token named {:?} exists: revoke it first, or choose another name", token.name));
        }
        all.tokens.push(token.clone());
        Ok(())
    })?;
    if file.json {
        let mut shown = shown(&token);
        shown["token"] = secret.reveal().into();
        return output::json(&shown);
    }
    // Alone on standard output, so that a script can take it.
    output::say(secret.reveal())?;
    note!(
        "{} was added to {}. It is not shown again. Servers accept it within two seconds.",
        token.name,
        file.tokens.display()
    );
    note!(
        "Send it as `authorization: Bearer TOKEN`. Commands read it from DUETIME_TOKEN; beanstalkd clients send `auth TOKEN`."
    );
    Ok(())
}

fn list(place: &Where) -> Result {
    let TokenFile { tokens } = TokenFile::read(&place.tokens)?;
    if place.json {
        return output::json(&tokens.iter().map(shown).collect::<Vec<_>>());
    }
    let row = |token: &Token| {
        let rights: Vec<_> = token.allow.iter().map(Grant::to_string).collect();
        let instant = |at: Option<Timestamp>| at.map_or_else(String::new, |at| at.to_string());
        let over = if token.expires.is_some_and(|Timestamp(at)| at <= now()) { " (expired)" } else { "" };
        let rate = token.rate.as_ref().map_or_else(String::new, show_rate);
        [token.name.clone(), rights.join(" "), rate, instant(token.created), instant(token.expires) + over]
    };
    let header = ["NAME", "RIGHTS", "RATE", "CREATED", "EXPIRES"];
    output::rows(&header, tokens.iter().map(row), "no tokens yet; `duetime token create` creates one")
}

fn revoke(Revoke { name, file }: &Revoke) -> Result {
    // A file that is not there holds no such token either.
    TokenFile::read(&file.tokens)?;
    TokenFile::change(&file.tokens, |all| {
        let before = all.tokens.len();
        all.tokens.retain(|token| token.name != *name);
        if all.tokens.len() == before {
            return Err(format!("there is no token {name:?}; `duetime token list` lists all tokens"));
        }
        Ok(())
    })?;
    if file.json {
        return output::json(&json!({ "revoked": name }));
    }
    output::say(format_args!("{name} is revoked: servers refuse it within two seconds"))
}
