//! The three steps: look, follow, drain.

use super::adopter::{Adopter, PATIENCE};
use super::look;
use super::options::Options;
use super::push::Pusher;
use super::report::Report;
use super::source::{Look, Source, Step, Trouble};
use crate::cli::exit::{Failure, Result};
use crate::signals::Signals;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(super) async fn run(mut source: Box<dyn Source>, options: &Options) -> Result {
    let step = match (options.follow, options.drain) {
        (true, _) => Some(Step::Follow),
        (_, true) => Some(Step::Drain),
        (false, false) => None,
    };
    let look = async {
        source.connect().await?;
        source.look().await
    };
    let look = match look.await {
        Ok(look) => Ok(look),
        Err(Trouble::Failed(failure)) => Err(failure),
        Err(away) => return Err(away.into()),
    };
    let Some(step) = step else {
        if options.yes.is_some() {
            return Err(Failure::usage("--yes needs --follow or --drain"));
        }
        return look::show(&look?, options.target.json);
    };
    let yes = options.yes.as_deref().unwrap_or_default();
    let (look, failure) = match look {
        Ok(look) if look.layout != yes => {
            let got = format!("the layout that was recognised is {}: got --yes {yes}", look.layout);
            return Err(
                Failure::usage(got).hint("look at it first: run the command without --follow, --drain and --yes")
            );
        }
        Ok(look) => (look, None),
        // The claims of an earlier run were recognised then. They must not wait until the rest can be recognised again.
        Err(failure) => match source.replay().await {
            Ok(claims) if !claims.is_empty() => (Look { layout: yes.to_owned(), ..Look::default() }, Some(failure)),
            _ => return Err(failure),
        },
    };
    let client = options.target.client_of_new().await?;
    // Claims nothing before the server is known to be reachable.
    client.health().await?;
    source.check(client).await?;
    let stop = CancellationToken::new();
    let mut signals = Signals::to_stop()?;
    let stopped = stop.clone();
    tokio::spawn(async move {
        signals.next().await;
        stopped.cancel();
    });
    look.notes.iter().for_each(|note| crate::cli::output::note!("{note}"));
    let report = Report::new(look.layout, options.target.json);
    let patience = (step == Step::Drain).then_some(PATIENCE);
    let pusher = Pusher { client, is_server: options.target.is_server(), patience, stop, is_away: Arc::default() };
    Adopter::new(source, pusher, step, report).run(failure).await
}
