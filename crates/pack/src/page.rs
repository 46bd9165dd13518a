//! A dashboard page as data: the route it shows, its columns, filters and actions.
//!
//! One renderer draws all of them. A part that needs more registers its own script module.

use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Its location: `#/guestbook`.
    pub name: &'static str,
    pub title: &'static str,
    /// The list it shows: a GET route that returns `{items, next_cursor}`.
    pub route: &'static str,
    pub columns: Vec<Column>,
    pub filters: Vec<Filter>,
    pub acts: Vec<PageAct>,
    /// Shown while the list is empty.
    pub empty: &'static str,
    /// The route takes `limit` and `cursor`.
    pub paged: bool,
    /// Queues for the part's internal jobs. The list of jobs hides them by default.
    pub quiet_queues: Vec<&'static str>,
    /// A script that draws the page instead: the path of an asset that exports `show(element)`.
    pub module: Option<&'static str>,
}

impl Page {
    pub fn new(name: &'static str, title: &'static str, route: &'static str) -> Page {
        let (columns, filters, acts) = (Vec::new(), Vec::new(), Vec::new());
        let (empty, quiet_queues) = ("Nothing here yet.", Vec::new());
        Page { name, title, route, columns, filters, acts, empty, paged: false, quiet_queues, module: None }
    }

    pub fn column(mut self, column: Column) -> Page {
        self.columns.push(column);
        self
    }

    pub fn filter(mut self, filter: Filter) -> Page {
        self.filters.push(filter);
        self
    }

    pub fn act(mut self, act: PageAct) -> Page {
        self.acts.push(act);
        self
    }

    pub fn empty(mut self, text: &'static str) -> Page {
        self.empty = text;
        self
    }

    /// For a route that takes `limit` and `cursor`.
    pub fn paged(mut self) -> Page {
        self.paged = true;
        self
    }

    pub fn quiet_queues(mut self, names: &[&'static str]) -> Page {
        self.quiet_queues = names.to_vec();
        self
    }

    pub fn module(mut self, path: &'static str) -> Page {
        self.module = Some(path);
        self
    }
}

/// How a value is shown, on a page and in the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellFormat {
    Text,
    /// Right-aligned.
    Number,
    /// Shown as an age, with the exact time as a tooltip.
    Time,
    /// Seconds, shown as a duration.
    Seconds,
    /// true or false.
    Flag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// A field of the item; `outer.inner` for nested objects.
    pub field: &'static str,
    pub title: &'static str,
    pub look: CellFormat,
}

impl Column {
    pub const fn text(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: CellFormat::Text }
    }

    pub const fn number(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: CellFormat::Number }
    }

    pub const fn time(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: CellFormat::Time }
    }

    pub const fn seconds(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: CellFormat::Seconds }
    }

    pub const fn flag(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: CellFormat::Flag }
    }
}

/// A query parameter of the page's route, set by the user.
#[derive(Clone, Debug, Serialize)]
pub struct Filter {
    pub parameter: &'static str,
    pub title: &'static str,
    /// The choices; empty means any text.
    pub options: Vec<&'static str>,
}

impl Filter {
    pub fn text(parameter: &'static str, title: &'static str) -> Filter {
        Filter { parameter, title, options: Vec::new() }
    }

    pub fn choice(parameter: &'static str, title: &'static str, options: &[&'static str]) -> Filter {
        Filter { parameter, title, options: options.to_vec() }
    }
}

/// A button. If its path has parameters, it appears on each row and the row's fields fill them. Otherwise it appears
/// above the table.
#[derive(Clone, Debug, Serialize)]
pub struct PageAct {
    pub title: &'static str,
    pub method: &'static str,
    /// `/v1/guestbook/{id}`.
    pub path: &'static str,
    /// A question to confirm first.
    pub confirm: Option<&'static str>,
    /// Sent as is.
    pub body: Option<Value>,
    /// Fields of the body that the user fills in.
    pub fields: Vec<&'static str>,
}

impl PageAct {
    pub fn new(title: &'static str, method: &'static str, path: &'static str) -> PageAct {
        PageAct { title, method, path, confirm: None, body: None, fields: Vec::new() }
    }

    pub fn confirm(mut self, question: &'static str) -> PageAct {
        self.confirm = Some(question);
        self
    }

    pub fn body(mut self, body: Value) -> PageAct {
        self.body = Some(body);
        self
    }

    pub fn fields(mut self, fields: &[&'static str]) -> PageAct {
        self.fields = fields.to_vec();
        self
    }
}

/// A static file.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// The operation id in the OpenAPI document: `script_guestbook`.
    pub name: &'static str,
    /// `/assets/guestbook.js`.
    pub path: &'static str,
    pub content_type: &'static str,
    pub content: &'static str,
}
