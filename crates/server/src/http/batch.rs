//! Arrays of requests. Each element is answered separately, even an unreadable one.

use super::problem::Problem;
use duetime_core::api::{self, Answer, Object};
use duetime_core::limits::BATCH_JOBS_MAX;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;

/// The elements of an array, in order; or why an element is invalid or refused.
pub(super) struct Batch<T>(Vec<Result<T, Problem>>);

impl<T> Batch<T> {
    /// The number of elements, of which each has its answer.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The valid elements.
    pub(super) fn asked(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// Refuses what this judges so: one judgement for each that was asked, in order.
    pub(super) fn refuse(&mut self, judgements: Vec<Result<(), Problem>>) {
        let asked = self.0.iter_mut().filter(|one| one.is_ok());
        for (one, judgement) in asked.zip(judgements) {
            if let Err(problem) = judgement {
                *one = Err(problem);
            }
        }
    }

    /// The valid elements, each with its index in the array.
    pub(super) fn placed(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.0.iter_mut().enumerate().filter_map(|(place, one)| Some((place, one.as_mut().ok()?)))
    }

    /// Splits off the valid elements; the rest merges their answers with the refusals, in order.
    pub(super) fn split(self) -> (Vec<T>, Merge) {
        let mut asked = Vec::with_capacity(self.0.len());
        let refused = self.0.into_iter().map(|one| one.map(|one| asked.push(one)).err()).collect();
        (asked, Merge(refused))
    }
}

/// The refusals of a batch, by their places.
pub(super) struct Merge(Vec<Option<Problem>>);

impl Merge {
    /// One answer for each element of the array, in order.
    pub(super) fn answers<T>(self, answers: impl IntoIterator<Item = Answer<T>>) -> Vec<Answer<T>> {
        let mut answers = answers.into_iter();
        let answer = |refused: Option<Problem>| match refused {
            Some(problem) => Answer::Problem(Box::new(problem.into())),
            None => answers.next().expect("an answer for each that was asked"),
        };
        self.0.into_iter().map(answer).collect()
    }
}

/// Reads an array and makes something of each element, without holding the elements.
///
/// # Errors
/// If the array as a whole is invalid.
pub(super) fn read<'a, T, U, E>(text: &'a str, make: impl Fn(T) -> Result<U, E>) -> Result<Batch<U>, Problem>
where
    T: Deserialize<'a>,
    E: Into<Problem>,
{
    each(text, |Object(element): Object<T>| make(element).map_err(E::into)).or_else(|_| {
        // An element has the wrong form: a second pass finds which one.
        let batch = each(text, |raw: &RawValue| {
            let Object(element) = api::read::<Object<T>>(raw.get())?;
            make(element).map_err(E::into)
        });
        batch.map_err(|error| api::unread(&error, text).into())
    })
}

fn each<'a, T, U>(text: &'a str, make: impl Fn(T) -> Result<U, Problem>) -> Result<Batch<U>, serde_json::Error>
where
    T: Deserialize<'a>,
{
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let batch = deserializer.deserialize_seq(Visitor { make, of: PhantomData })?;
    deserializer.end()?;
    Ok(batch)
}

struct Visitor<T, F> {
    make: F,
    of: PhantomData<T>,
}

impl<'de, T, U, F> de::Visitor<'de> for Visitor<T, F>
where
    T: Deserialize<'de>,
    F: Fn(T) -> Result<U, Problem>,
{
    type Value = Batch<U>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Batch<U>, A::Error> {
        let mut batch = Vec::new();
        while let Some(element) = elements.next_element()? {
            if batch.len() == BATCH_JOBS_MAX {
                return Err(de::Error::custom(format_args!("expected at most {BATCH_JOBS_MAX} elements, got more")));
            }
            batch.push((self.make)(element));
        }
        Ok(Batch(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_core::Error;
    use duetime_core::JobRef;

    fn numbers(text: &str) -> Result<Batch<u64>, Problem> {
        read(text, |body: JobRef| match body.id.get() {
            9 => Err(Error::invalid("id", "not 9", 9)),
            number => Ok(number),
        })
    }

    #[test]
    fn each_element_is_answered_in_its_place() {
        let text = r#"[{"id":"9"},{"id":"1"},{"od":1},7,{"id":"2"},{"id":"9"}]"#;
        let (asked, merge) = numbers(text).unwrap().split();
        assert_eq!(asked, [1, 2]);
        let answers = merge.answers(asked.into_iter().map(Answer::Done));
        let words: Vec<_> = answers
            .iter()
            .map(|answer| match answer {
                Answer::Done(number) => number.to_string(),
                Answer::Problem(problem) => problem.detail.clone(),
            })
            .collect();
        assert_eq!((&*words[1], &*words[4]), ("1", "2"));
        assert!(words[0].contains("not 9") && words[5].contains("not 9"));
        assert!(words[2].contains("`od` is unknown") && words[3].contains("must be an object"), "{words:?}");
    }

    #[test]
    fn what_is_judged_wrong_is_answered_in_its_place() {
        let mut batch = numbers(r#"[{"id":"1"},7,{"id":"2"},{"id":"3"},{"od":1}]"#).unwrap();
        let wrong = || Err(Problem::from(Error::Stopping));
        batch.refuse(vec![wrong(), Ok(()), wrong()]);
        let (asked, merge) = batch.split();
        assert_eq!(asked, [2]);
        let answers = merge.answers([Answer::Done(2)]);
        let code = |answer: &Answer<u64>| match answer {
            Answer::Done(_) => "done".to_owned(),
            Answer::Problem(problem) => problem.code.clone(),
        };
        let codes: Vec<_> = answers.iter().map(code).collect();
        assert_eq!(codes, ["stopping", "invalid", "done", "stopping", "invalid"]);
    }

    #[test]
    fn a_broken_or_endless_array_is_refused_as_a_whole() {
        let code = |text: &str| numbers(text).err().map(|problem| duetime_core::api::Problem::from(problem).code);
        assert_eq!(code("[]"), None);
        assert_eq!(code(&format!("[{}7]", "7,".repeat(BATCH_JOBS_MAX - 1))), None);
        assert_eq!(code(&format!("[{}7]", "7,".repeat(BATCH_JOBS_MAX))).as_deref(), Some("invalid"));
        for text in ["[", "[{}", r#"[{"id":"1"},]"#, r#"[{"od":"1"}] ["#, "[7,tru]"] {
            assert_eq!(code(text).as_deref(), Some("malformed_json"), "{text}");
        }
    }
}
