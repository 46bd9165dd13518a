//! Paged lists: parameters and responses.
//!
//! Owns `limit`, `cursor` and `next_cursor`. Each list defines its cursor, which is the position of its last row.

use serde_json::json;
use windlass_core::Invalid;

use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::view::ListView;

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 1_000;

/// A requested page.
pub struct Paging<C> {
    pub cursor: Option<C>,
    limit: u32,
}

/// Adds both parameters to a route.
pub fn paged(route: Route, limit: &'static str) -> Route {
    let cursor = "The `next_cursor` of the previous page";
    limited(route.query("cursor", cursor, json!({ "type": "string" })), limit, DEFAULT_LIMIT)
}

/// Adds only `limit`, for a list without further pages.
pub fn limited(route: Route, about: &'static str, default: u32) -> Route {
    route.query(
        "limit",
        about,
        json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": default }),
    )
}

impl<C> Paging<C> {
    /// `cursor` returns `None` for an invalid text.
    pub fn read(call: &Call, cursor: impl Fn(&str) -> Option<C>) -> Result<Paging<C>, Problem> {
        let (paging, invalid) = Paging::look(call, cursor);
        invalid.into_result().map_err(Problem::parameter)?;
        Ok(paging)
    }

    /// For a list with its own parameters, which reports all problems together.
    pub fn look(call: &Call, cursor: impl Fn(&str) -> Option<C>) -> (Paging<C>, Invalid) {
        let mut invalid = Invalid::default();
        let text = call.query("cursor");
        let cursor = text.and_then(cursor);
        if text.is_some() && cursor.is_none() {
            invalid.add("cursor", "must be the next_cursor of an earlier page");
        }
        let limit = read_limit(call, DEFAULT_LIMIT, &mut invalid);
        (Paging { cursor, limit }, invalid)
    }

    /// Rows to read: one more than shown tells whether there is a next page.
    pub fn wanted(&self) -> u32 {
        self.limit + 1
    }

    /// The page from the rows read; `cursor` gives the position of a row.
    pub fn list<R, V>(
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

/// Only `limit`.
pub fn limit(call: &Call, default: u32) -> Result<u32, Problem> {
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
