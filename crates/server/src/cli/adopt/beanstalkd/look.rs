//! The contents of a beanstalkd.

use super::stats::{self, JobStats};
use super::wire::{Body, Reply};
use super::{Beanstalkd, CLAIMS, LAYOUT, unexpected};
use crate::cli::adopt::source::{Done, Look, Part, SAMPLES_MAX, Sample};
use crate::cli::output::snippet;

impl Beanstalkd {
    /// Counts jobs by tube, and reads the first ones.
    pub(super) async fn survey(&mut self) -> Done<Look> {
        let reply = self.ask_one("stats".to_owned()).await?;
        let text = reply.text().ok_or_else(|| unexpected(&reply))?;
        let said = |key| stats::value(text, key).unwrap_or("?").to_owned();
        let why = format!("{} answers as beanstalkd {}", self.address, said("version"));
        let is_draining = said("draining") == "true";
        let mut look = Look { layout: LAYOUT.to_owned(), why, ..Look::default() };
        if is_draining {
            look.notes
                .push("It is draining (SIGUSR1), so it accepts no claims: restart it with its log first.".to_owned());
        }
        let tubes: Vec<String> = self.list().await?.into_iter().collect();
        for missing in self.tubes.iter().filter(|&tube| !tubes.contains(tube)) {
            look.is_missing = true;
            look.notes
                .push(format!("The tube {missing:?} does not exist: a tube that nobody uses is gone. Check the name."));
        }
        let all = tubes.iter().map(String::as_str).chain([CLAIMS]);
        let mut replies = self.ask(&all.map(|tube| format!("stats-tube {tube}")).collect()).await?;
        let claims = replies.pop().map_or(0, |reply| number(&reply, "current-jobs-ready"));
        if claims > 0 {
            look.notes.push(format!(
                "An earlier run was killed and left {claims} claims. Their jobs are buried until --follow or --drain \
                 finishes them."
            ));
        }
        for (tube, reply) in tubes.into_iter().zip(&replies) {
            let (due, later) = (number(reply, "current-jobs-ready"), number(reply, "current-jobs-delayed"));
            let (buried, reserved) = (number(reply, "current-jobs-buried"), number(reply, "current-jobs-reserved"));
            let why_left = (buried + reserved > 0).then(|| format!("{buried} buried, {reserved} reserved by workers"));
            if look.samples.len() < SAMPLES_MAX && due + later > 0 {
                self.sample(&tube, &mut look).await?;
            }
            if due + later + buried + reserved > 0 {
                look.parts.push(Part { name: tube, due, later, left: buried + reserved, why_left, ..Part::default() });
            }
        }
        Ok(look)
    }

    /// Shows the first ready job of a tube, and the first delayed one.
    async fn sample(&mut self, tube: &str, look: &mut Look) -> Done {
        let commands = [&format!("use {tube}"), "peek-ready", "peek-delayed"].into_iter().collect();
        for (id, body) in self.ask(&commands).await?.into_iter().filter_map(Reply::job) {
            let reply = self.ask_one(format!("stats-job {id}")).await?;
            let Some(stats) = JobStats::read(&reply).filter(|_| look.samples.len() < SAMPLES_MAX) else { continue };
            let (is_read, payload) = match &body {
                Body::Whole(bytes) => (true, snippet(bytes)),
                Body::TooLarge(bytes) => (false, format!("({bytes} bytes: too large)")),
            };
            look.unread += u64::from(!is_read);
            let due_at_ms = super::scan::due_here(&stats);
            let due_as = match due_at_ms {
                Some(_) => format!("time-left: {} s", stats.left_s),
                None => "ready".to_owned(),
            };
            look.samples.push(Sample { part: tube.to_owned(), due_at_ms, due_as, payload });
        }
        Ok(())
    }
}

/// A number of an answer; 0 if there is no such tube.
fn number(reply: &Reply, key: &str) -> u64 {
    reply.text().and_then(|text| stats::value(text, key)?.parse().ok()).unwrap_or(0)
}
