//! Pages of a list: the parameters that ask for one, and what is answered.
//!
//! Owns `limit`, `cursor` and `next_cursor`. What a cursor is, is the list's own: the place of its last row.

use serde_json::json;
use windlass_core::Invalid;

use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::view::ListView;

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 1_000;

/// A page that is asked for.
pub(crate) struct Paging<C> {
    pub(crate) cursor: Option<C>,
    limit: u32,
}

/// Adds both parameters to a list's route.
pub(crate) fn paged(route: Route, limit: &'static str) -> Route {
    let cursor = "The `next_cursor` of the page before";
    limited(route.query("cursor", cursor, json!({ "type": "string" })), limit, DEFAULT_LIMIT)
}

/// Adds `limit` alone, where there is no next page.
pub(crate) fn limited(route: Route, about: &'static str, default: u32) -> Route {
    route.query(
        "limit",
        about,
        json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": default }),
    )
}

impl<C> Paging<C> {
    /// `cursor` answers `None` for a text that is none.
    pub(crate) fn read(call: &Call, cursor: impl Fn(&str) -> Option<C>) -> Result<Paging<C>, Problem> {
        let mut invalid = Invalid::default();
        let text = call.query("cursor");
        let cursor = text.and_then(cursor);
        if text.is_some() && cursor.is_none() {
            invalid.add("cursor", "must be the next_cursor of an earlier page");
        }
        let limit = read_limit(call, DEFAULT_LIMIT, &mut invalid);
        invalid.into_result().map_err(Problem::parameter)?;
        Ok(Paging { cursor, limit })
    }

    /// How many rows to read: one more than is shown tells whether there is a next page.
    pub(crate) fn wanted(&self) -> u32 {
        self.limit + 1
    }

    /// The page of what was read; `cursor` is the place of a row.
    pub(crate) fn list<R, V>(
        &self,
        mut rows: Vec<R>,
        cursor: impl Fn(&R) -> String,
        view: impl Fn(R) -> V,
    ) -> ListView<V> {
        let more = rows.len() > self.limit as usize;
        rows.truncate(self.limit as usize);
        let next_cursor = rows.last().filter(|_| more).map(cursor);
        ListView { items: rows.into_iter().map(view).collect(), next_cursor }
    }
}

/// `limit` alone.
pub(crate) fn limit(call: &Call, default: u32) -> Result<u32, Problem> {
    let mut invalid = Invalid::default();
    let limit = read_limit(call, default, &mut invalid);
    invalid.into_result().map_err(Problem::parameter)?;
    Ok(limit)
}

fn read_limit(call: &Call, default: u32, invalid: &mut Invalid) -> u32 {
    match call.query("limit").map(str::parse::<u32>) {
        None => default,
        Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => limit,
        Some(_) => {
            invalid.add("limit", format!("must be 1 to {MAX_LIMIT}"));
            default
        }
    }
}
