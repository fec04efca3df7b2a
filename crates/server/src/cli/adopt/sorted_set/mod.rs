//! Sorted sets whose scores are due times: the code that their sources share.
//!
//! A claim is a member, its score as Redis spells it, and the unit of that score. So it is read the same way at any time.

mod score;
mod survey;
pub(super) mod table_set;
pub(super) mod undo;
pub(super) mod zset;

use super::redis::Redis;
use super::source::{Done, Look, Part, Step, Trouble, tag};
use crate::cli::adopt::options::Options;
use crate::cli::exit::{Failure, Result};
use duetime_core::limits::DELAY_MS_MAX;
use duetime_core::model::name;
use duetime_core::{KeyUntil, NewJob, OnConflict};
use score::{INSTANT_S_MIN, Unit, parse};
use std::sync::Arc;
use survey::{Survey, Verdict};

/// Puts a claim back, unless the old code has put its member there since; not while there is a lock.
const PUT_BACK: &str = "if KEYS[3] and redis.call('EXISTS', KEYS[3]) == 1 then return false end
redis.call('ZADD', KEYS[2], 'NX', parts[2], parts[1])";
/// The advice for an unclear unit.
const NAME_UNIT: &str = "Choose the unit with --score seconds, milliseconds or microseconds. Scores that are no times are due now; those in another unit stay.";
/// A note of all of them.
const TAKEN: &str = "Once a member is taken, the old code no longer finds it: ZREM removes nothing, and ZADD adds it again. If it \
    is taken again while its job waits, the";

/// Options of all sources that are sorted sets.
#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// Address of the Redis with the set: redis://…, rediss://…, redis+sentinel://… or redis+cluster://…
    #[arg(long, value_name = "URL")]
    from: String,
    /// Key of the set
    #[arg(long)]
    key: String,
    /// Queue for the jobs
    #[arg(long, value_name = "QUEUE")]
    to: Arc<str>,
    /// Kind of the jobs; by default `default`
    #[arg(long)]
    kind: Option<Arc<str>>,
    /// Unit of the scores, counted since 1970; by default guessed from their size
    #[arg(long, value_name = "UNIT")]
    score: Option<Unit>,
    /// Put all jobs that wait in the queue back into the set, then exit; their payloads become the members
    #[arg(long, requires = "yes", conflicts_with_all = ["follow", "drain"])]
    pub(super) undo: bool,
    #[command(flatten)]
    pub(super) options: Options,
}

/// The scores that a script takes: the arguments 2 to 5 of `take.lua`.
type Range = (&'static str, u64, u64, u64);

/// A sorted set of jobs.
struct SortedSet {
    key: String,
    /// A job without its payload, key and due time.
    template: NewJob,
    /// Named, or judged by a look.
    unit: Option<Unit>,
    /// It was named.
    is_named: bool,
    /// It must be named: at the first look no score was a time.
    is_needed: bool,
}

impl SortedSet {
    fn new(args: &SetArgs, on_conflict: OnConflict) -> Result<Self> {
        let SetArgs { key, to, kind, score, .. } = args;
        name::check_queue(to)?;
        let mut template = NewJob { queue: to.clone(), tags: vec![tag(key)?], ..NewJob::new(&b""[..]) };
        if let Some(kind) = kind {
            name::check_kind(kind)?;
            template.kind = kind.clone();
        }
        // A repeat changes the job that waits; once that has started, it is another one, as it was in the set.
        (template.on_conflict, template.key_until) = (on_conflict, KeyUntil::Started);
        Ok(Self { key: key.clone(), template, unit: *score, is_named: score.is_some(), is_needed: false })
    }

    /// The scores that a script takes now; `None` if there are no members.
    async fn range(&mut self, redis: &Redis, step: Step) -> Done<Option<Range>> {
        if self.unit.is_none() {
            let survey = Survey::read(redis, &self.key).await?;
            let unclear = match survey.judge() {
                _ if survey.total() == 0 => return Ok(None),
                Verdict::Unit(unit) => {
                    self.unit = Some(unit);
                    None
                }
                Verdict::None => self.is_needed.then(|| "no score is a time".to_owned()),
                Verdict::Unclear(why) => Some(why),
            };
            if let Some(why) = unclear {
                return Err(Trouble::Failed(Failure::usage(why).hint(NAME_UNIT)));
            }
        }
        // Without a unit there are only scores that are no instants in any.
        Ok(Some(Self::range_of(self.unit.unwrap_or(Unit::Seconds), step)))
    }

    fn range_of(unit: Unit, step: Step) -> Range {
        (unit.name(), unit.per_second(), INSTANT_S_MIN, if step == Step::Drain { DELAY_MS_MAX } else { 0 })
    }

    /// The job that a claim is.
    fn read(&self, texts: &[Vec<u8>]) -> std::result::Result<NewJob, String> {
        let [member, score, unit] = texts else {
            return Err(format!("a claim must have a member, a score and a unit; this one has {} values", texts.len()));
        };
        let due = Unit::named(unit).zip(parse(score)).and_then(|(unit, score)| unit.due(score));
        let due = due.ok_or_else(|| {
            let [score, unit] = [score, unit].map(|text| String::from_utf8_lossy(text));
            format!("its score is not a time: {score} {unit}")
        })?;
        Ok(NewJob { payload: member.as_slice().into(), due, key: key(member), ..self.template.clone() })
    }

    /// Counts members, and shows some.
    async fn look(&mut self, redis: &Redis, layout: &str) -> Done<Look> {
        let survey = Survey::read(redis, &self.key).await?;
        let (key, total) = (&self.key, survey.total());
        let kept =
            if self.template.on_conflict == OnConflict::Keep { "first job stays" } else { "new job replaces that one" };
        let (mut notes, mut first) = (vec![format!("{TAKEN} {kept}.")], None);
        let verdict = survey.judge();
        // A run keeps its unit.
        if let (Verdict::Unit(unit), None) = (&verdict, self.unit) {
            self.unit = Some(*unit);
        }
        let why = match (verdict, self.unit) {
            _ if total == 0 => {
                notes.push(format!("The key {key:?} does not exist; Redis has no empty sorted sets. Check the name."));
                format!("an empty sorted set: {} has no key {key:?}", redis.place())
            }
            (_, Some(unit)) if self.is_named => format!("a sorted set of {total} members, as --score {}", unit.name()),
            (_, Some(unit)) => format!("a sorted set of {total} members whose scores are {} since 1970", unit.name()),
            (Verdict::Unclear(why), None) => {
                notes.push(format!("The unit is unclear: {why}."));
                first = Some(NAME_UNIT.to_owned());
                format!("a sorted set of {total} members whose unit is unclear")
            }
            (_, None) => {
                self.is_needed = true;
                notes.push("No score is a time: is this a queue?".to_owned());
                first = Some(NAME_UNIT.to_owned());
                format!("a sorted set of {total} members whose scores are not times")
            }
        };
        let (due, later) = survey.taken(self.unit);
        let left = total - due - later;
        let why_left = (left > 0).then(|| survey.others(self.unit));
        let samples = survey.samples(key);
        let parts = vec![Part { name: key.clone(), due, later, left, why_left, ..Part::default() }];
        let is_missing = total == 0;
        Ok(Look { layout: layout.to_owned(), why, parts, samples, notes, first, is_missing, ..Look::default() })
    }
}

/// The key of a member's job: the member, if it is a valid key.
fn key(member: &[u8]) -> Option<Arc<str>> {
    let text = std::str::from_utf8(member).ok()?;
    (name::check_key(text).is_ok() && !text.starts_with(name::OF_ENGINE)).then(|| text.into())
}
