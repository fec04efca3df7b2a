//! Edits of a job's payload and priority as their callers know them, and what the job may look like afterwards. Each edit
//! gives a field a value that no other edit gives it.

use crate::clock::Millis;
use crate::model::job::Job;
use crate::request::Patch;
use crate::testing::Random;

/// The edits of a job.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    payloads: Vec<Asked>,
    priorities: Vec<Asked>,
}

#[derive(Debug)]
struct Asked {
    value: u64,
    asked: Millis,
    /// `None` without an answer: it may be made at any time.
    made: Option<Millis>,
}

impl Edits {
    /// Two edits of different fields.
    pub(crate) fn pair(random: &mut Random) -> [Patch; 2] {
        let payload = random.any().to_string().into_bytes();
        let priority = random.within(10_000..u64::from(u32::MAX)) as u32;
        [
            Patch { payload: Some(payload.into()), ..Patch::default() },
            Patch { priority: Some(priority), ..Patch::default() },
        ]
    }

    /// An edit was asked for at this instant of the monotonic clock, and answered as made at that one.
    pub(crate) fn asked(&mut self, patch: &Patch, asked: Millis, made: Option<Millis>) {
        if let Some(value) = patch.payload.as_deref().and_then(number) {
            self.payloads.push(Asked { value, asked, made });
        }
        if let Some(priority) = patch.priority {
            self.priorities.push(Asked { value: priority.into(), asked, made });
        }
    }

    /// What this record of the job lacks. `is_kept` tells whether nothing that befell the store since then has undone an
    /// edit.
    pub(crate) fn lost(&self, record: &Job, is_kept: impl Fn(Millis) -> bool) -> Option<String> {
        let is_kept = |edit: &&Asked| edit.made.is_some() && is_kept(edit.asked);
        let fields = [
            ("payload", &self.payloads, number(&record.payload)),
            ("priority", &self.priorities, Some(record.priority.into())),
        ];
        fields.into_iter().find_map(|(name, edits, value)| {
            let now = edits.iter().find(|edit| Some(edit.value) == value);
            // Without an edit it is as it was pushed.
            let since = now.map_or(0, |now| now.made.unwrap_or(Millis::MAX));
            let lost = edits.iter().filter(is_kept).find(|edit| edit.asked > since || now.is_none())?;
            Some(format!("the {name} is {value:?}, and the edit to {} was acknowledged: {edits:?}", lost.value))
        })
    }
}

fn number(payload: &[u8]) -> Option<u64> {
    std::str::from_utf8(payload).ok()?.parse().ok()
}
