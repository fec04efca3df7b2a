//! Pages of lists that are read as a whole, by name.

use duetime_core::Error;
use duetime_core::api::Parameters;
use duetime_core::api::schema::Cursor;
use duetime_core::limits::{PAGE_BYTES_MAX, PAGE_NAMES_DEFAULT, PAGE_NAMES_MAX};

/// The query parameters of a page, as they are documented.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "`asked` reads them")]
pub(super) struct PageQuery {
    /// The `next_cursor` of the previous page.
    cursor: Option<Cursor>,
    /// Maximum number of results; 100 by default.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
}

/// The entries of a page, and the start of the next one.
pub(super) struct Page<T> {
    /// By name.
    pub(super) shown: Vec<T>,
    /// The last name that is shown, where more come.
    pub(super) next_cursor: Option<String>,
}

/// The `cursor` and the `limit` that a query string asks with.
///
/// # Errors
/// [`Error::Invalid`].
pub(super) fn asked(query: &str) -> Result<(Option<String>, usize), Error> {
    let query = Parameters::read(query, &["cursor", "limit"])?;
    let limit = query.limit.unwrap_or(PAGE_NAMES_DEFAULT);
    if !(1..=PAGE_NAMES_MAX).contains(&limit) {
        return Err(Error::invalid("limit", format!("between 1 and {PAGE_NAMES_MAX}"), limit));
    }
    Ok((query.cursor, limit))
}

/// The page of these that a query string asks for with `cursor` and `limit`.
///
/// # Errors
/// [`Error::Invalid`].
pub(super) fn of<T>(mut all: Vec<T>, name: fn(&T) -> &str, query: &str) -> Result<Page<T>, Error> {
    let (cursor, limit) = asked(query)?;
    // Stores may sort differently; a cursor compares bytes.
    all.sort_by(|one, other| name(one).cmp(name(other)));
    if let Some(after) = &cursor {
        all.retain(|one| name(one) > after.as_str());
    }
    Ok(cut(all, name, limit))
}

/// The first of these, which are in order.
pub(super) fn cut<T>(mut all: Vec<T>, name: fn(&T) -> &str, limit: usize) -> Page<T> {
    let has_next = all.len() > limit;
    all.truncate(limit);
    let next_cursor = all.last().filter(|_| has_next).map(|last| name(last).to_owned());
    Page { shown: all, next_cursor }
}

impl<T> Page<T> {
    /// The first of these, up to the bytes of a page.
    pub(super) fn within(self, name: fn(&T) -> &str, bytes: fn(&T) -> usize) -> Self {
        let (mut all, limit) = (0, self.shown.len());
        let fitting = self.shown.iter().take_while(|one| {
            let has_room = all < PAGE_BYTES_MAX;
            all += bytes(one);
            has_room
        });
        let fitting = fitting.count();
        if fitting == limit { self } else { cut(self.shown, name, fitting) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_with_its_bytes() {
        struct One(String);
        fn name(one: &One) -> &str {
            &one.0[..2]
        }
        fn bytes(one: &One) -> usize {
            one.0.len()
        }
        let all: Vec<One> = (0..40).map(|n| One(format!("{n:02}{}", "x".repeat(1 << 20)))).collect();
        let Page { shown, next_cursor } = cut(all, name, 39).within(name, bytes);
        assert_eq!((shown.len(), next_cursor.as_deref()), (16, Some("15")));
        let Page { shown, next_cursor } = cut(shown, name, 15).within(name, bytes);
        assert_eq!((shown.len(), next_cursor.as_deref()), (15, Some("14")));
    }

    #[test]
    fn pages_follow_each_other() {
        let all = || vec!["b", "a", "d", "c", "e"];
        let page = |query: &str| of(all(), |name| name, query);
        let (mut seen, mut query) = (Vec::new(), "limit=2".to_owned());
        loop {
            let Page { shown, next_cursor } = page(&query).unwrap();
            assert!(shown.len() <= 2);
            seen.extend(shown);
            let Some(cursor) = next_cursor else { break };
            query = format!("limit=2&cursor={cursor}");
        }
        assert_eq!(seen, ["a", "b", "c", "d", "e"]);
        assert_eq!(page("limit=5").unwrap().next_cursor, None);
        assert_eq!(page("cursor=e").unwrap().shown, [""; 0]);
        for wrong in ["limit=0", "limit=1001", "limit=x", "after=a"] {
            assert_eq!(page(wrong).err().map(|error| error.code()), Some("invalid"), "{wrong}");
        }
    }
}
