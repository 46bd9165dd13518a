//! A page of the dashboard as data: which route it shows, in which columns, with which filters and acts.
//!
//! One renderer draws all of them. A part that needs more brings a script module of its own.

use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Its place in the address: `#/guestbook`.
    pub name: &'static str,
    pub title: &'static str,
    /// The list it shows, a GET route that answers `{items, next_cursor}`.
    pub route: &'static str,
    pub columns: Vec<Column>,
    pub filters: Vec<Filter>,
    pub acts: Vec<PageAct>,
    /// What stands there while the list is empty.
    pub empty: &'static str,
    /// The route takes `limit` and `cursor`.
    pub paged: bool,
    /// Queues whose jobs are the part's own upkeep: the list of jobs leaves them out unless asked for.
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

    /// Its route takes `limit` and `cursor`.
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

/// How a value is shown, on a page and in the terminal alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    Text,
    /// Aligned to the right.
    Number,
    /// A time, shown as its age with the exact time behind it.
    Time,
    /// Seconds, shown as a duration.
    Seconds,
    /// true or false.
    Flag,
}

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// A field of the item; `outer.inner` inside an object.
    pub field: &'static str,
    pub title: &'static str,
    pub look: Look,
}

impl Column {
    pub const fn text(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: Look::Text }
    }

    pub const fn number(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: Look::Number }
    }

    pub const fn time(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: Look::Time }
    }

    pub const fn seconds(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: Look::Seconds }
    }

    pub const fn flag(field: &'static str, title: &'static str) -> Column {
        Column { field, title, look: Look::Flag }
    }
}

/// A query parameter of the page's route that the reader sets.
#[derive(Clone, Debug, Serialize)]
pub struct Filter {
    pub parameter: &'static str,
    pub title: &'static str,
    /// What may be chosen; empty means any text.
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

/// A button: on every row where its path has holes that the row's fields fill, else above the table.
#[derive(Clone, Debug, Serialize)]
pub struct PageAct {
    pub title: &'static str,
    pub method: &'static str,
    /// `/v1/guestbook/{id}`.
    pub path: &'static str,
    /// Asked before it is done.
    pub confirm: Option<&'static str>,
    /// Sent as it is.
    pub body: Option<Value>,
    /// Fields of the body that the reader fills in.
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

/// A file the server hands out as it is.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// The operation's id in the document: `script_guestbook`.
    pub name: &'static str,
    /// `/assets/guestbook.js`.
    pub path: &'static str,
    pub content_type: &'static str,
    pub content: &'static str,
}
