//! Paged lists: parameters and responses.
//!
//! Owns `limit`, `cursor` and `next_cursor`. Each list defines its cursor, which is the position of its last row. A
//! page is bounded in rows and in bytes: a thousand rows of a megabyte would otherwise be one response of a gigabyte.

use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use windlass_core::Invalid;

use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::view::ListView;

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 1_000;

/// Bytes of rows on a page. The page ends before a row that exceeds them; the first row is always shown.
pub const PAGE_BYTES: usize = 4 << 20;
/// Bytes of a payload or a result that a list shows.
pub const EXCERPT: u32 = 4 * 1024;
/// Rows that a list of large rows reads first, and at most at once: see [`Filling::wanted`].
const FIRST_SLICE: usize = 16;
const MAX_SLICE: usize = 64;

/// A requested page.
pub struct Paging<C> {
    pub cursor: Option<C>,
    limit: u32,
}

/// Adds both parameters to a route.
pub fn paged(route: Route, limit: &'static str) -> Route {
    let cursor = "The `next_cursor` of the previous page";
    limited(route.query("cursor", cursor, json!({ "type": "string", "minLength": 1 })), limit, DEFAULT_LIMIT)
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
        let cursor = text.filter(|text| !text.is_empty()).and_then(cursor);
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
    pub fn list<R, V: Serialize>(
        &self,
        rows: Vec<R>,
        cursor: impl Fn(&R) -> String,
        view: impl Fn(R) -> V,
    ) -> Result<ListView<Box<RawValue>>, Problem> {
        let mut page = self.fill();
        for row in rows {
            let place = cursor(&row);
            if !page.add(place, &view(row))? {
                break;
            }
        }
        Ok(page.into_list())
    }

    /// An empty page, for a list whose rows are too large to read all at once.
    pub fn fill(&self) -> Filling {
        Filling { limit: self.limit as usize, items: Vec::new(), bytes: 0, last: None, more: false }
    }
}

/// A page while it is filled. Rows are kept as JSON, because only that has a size.
pub struct Filling {
    limit: usize,
    items: Vec<Box<RawValue>>,
    bytes: usize,
    last: Option<String>,
    more: bool,
}

impl Filling {
    /// Rows to read next: as many as fit if they are as large as those before, so that little is in memory at once. At
    /// the end of the page, one more than is shown.
    pub fn wanted(&self) -> u32 {
        let fit = match self.bytes.checked_div(self.items.len()) {
            None => FIRST_SLICE,
            Some(average) => (PAGE_BYTES.saturating_sub(self.bytes) / average.max(1)).clamp(1, MAX_SLICE),
        };
        u32::try_from((self.limit + 1 - self.items.len()).min(fit)).unwrap_or(1)
    }

    /// Adds the row at `place`. False if the page is full; the row then belongs to the next page.
    pub fn add<V: Serialize>(&mut self, place: String, view: &V) -> Result<bool, Problem> {
        let written = to_raw_value(view);
        let item =
            written.map_err(|error| Problem::internal("a row could not be written", &error.to_string()))?;
        let size = item.get().len();
        if self.items.len() == self.limit || (!self.items.is_empty() && self.bytes + size > PAGE_BYTES) {
            self.more = true;
            return Ok(false);
        }
        self.bytes += size;
        self.items.push(item);
        self.last = Some(place);
        Ok(true)
    }

    pub fn into_list(self) -> ListView<Box<RawValue>> {
        ListView { items: self.items, next_cursor: self.last.filter(|_| self.more) }
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
