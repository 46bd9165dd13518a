//! A command-line verb as data: the route it calls, its arguments, and how the response is shown.
//!
//! `windlass guestbook sign --name Ada` calls a route in this process or on a server. A verb that needs more than one
//! call is code, which has access only to the routes and the terminal.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{Method, StatusCode};
use futures_util::future::BoxFuture;
use serde_json::Value;
use windlass_core::Invalid;

use crate::api::{Api, ApiError, ApiRequest};
use crate::page::Column;

/// `windlass NOUN NAME`, or `windlass NOUN` if the name is empty.
#[derive(Clone)]
pub struct Verb {
    pub noun: &'static str,
    pub name: &'static str,
    pub about: &'static str,
    /// Help text of the noun, taken from its first verb.
    pub noun_about: &'static str,
    pub args: Vec<Arg>,
    pub does: Does,
    /// May create a new SQLite file.
    pub creates: bool,
    /// Shown below the options in the help.
    pub examples: &'static str,
}

#[derive(Clone)]
pub enum Does {
    /// One call. `columns` shows its items, or its fields if it returns one object.
    Call {
        method: Method,
        path: &'static str,
        columns: Vec<Column>,
        empty: &'static str,
    },
    Run(Run),
}

pub type Run = Arc<dyn Fn(VerbCall) -> BoxFuture<'static, Result<(), VerbError>> + Send + Sync>;

impl Verb {
    /// A verb that calls one route.
    pub fn call(
        noun: &'static str,
        name: &'static str,
        about: &'static str,
        method: Method,
        path: &'static str,
    ) -> Verb {
        let does = Does::Call { method, path, columns: Vec::new(), empty: "nothing there" };
        Verb { noun, name, about, noun_about: "", args: Vec::new(), does, creates: false, examples: "" }
    }

    /// Sets the help text of the noun.
    pub fn of(mut self, noun_about: &'static str) -> Verb {
        self.noun_about = noun_about;
        self
    }

    /// A verb implemented in code.
    pub fn run<F, R>(noun: &'static str, name: &'static str, about: &'static str, run: F) -> Verb
    where
        F: Fn(VerbCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), VerbError>> + Send + 'static,
    {
        let does = Does::Run(Arc::new(move |call| Box::pin(run(call))));
        Verb { noun, name, about, noun_about: "", args: Vec::new(), does, creates: false, examples: "" }
    }

    pub fn arg(mut self, arg: Arg) -> Verb {
        self.args.push(arg);
        self
    }

    pub fn columns(mut self, shown: &[Column]) -> Verb {
        if let Does::Call { columns, .. } = &mut self.does {
            *columns = shown.to_vec();
        }
        self
    }

    /// Printed instead of a table without rows.
    pub fn empty(mut self, text: &'static str) -> Verb {
        if let Does::Call { empty, .. } = &mut self.does {
            *empty = text;
        }
        self
    }

    pub fn examples(mut self, text: &'static str) -> Verb {
        self.examples = text;
        self
    }

    /// Creates a SQLite file if there is none, and says so.
    pub fn creates(mut self) -> Verb {
        self.creates = true;
        self
    }
}

/// Where the value of an argument goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// A path parameter.
    Path,
    Query,
    /// A field of the body, as text.
    Field,
    /// Not sent; read by the verb's code.
    Code,
}

#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// `name` for `--name`, or the placeholder of a positional argument.
    pub name: &'static str,
    pub about: &'static str,
    pub goes: Goes,
    /// Without `--`, in the given order.
    pub positional: bool,
    pub required: bool,
    pub many: bool,
    /// Takes no value.
    pub switch: bool,
    /// Placeholder of its value in the help; empty means its name.
    pub value: &'static str,
}

impl Arg {
    /// `NAME`, required.
    pub const fn positional(name: &'static str, about: &'static str, goes: Goes) -> Arg {
        Arg { name, about, goes, positional: true, required: true, many: false, switch: false, value: "" }
    }

    /// `--name VALUE`.
    pub const fn option(name: &'static str, about: &'static str, goes: Goes) -> Arg {
        Arg { name, about, goes, positional: false, required: false, many: false, switch: false, value: "" }
    }

    /// `--name`.
    pub const fn switch(name: &'static str, about: &'static str, goes: Goes) -> Arg {
        Arg { name, about, goes, positional: false, required: false, many: false, switch: true, value: "" }
    }

    pub const fn required(mut self) -> Arg {
        self.required = true;
        self
    }

    pub const fn optional(mut self) -> Arg {
        self.required = false;
        self
    }

    pub const fn value(mut self, value: &'static str) -> Arg {
        self.value = value;
        self
    }

    pub const fn many(mut self) -> Arg {
        self.many = true;
        self
    }
}

/// What a verb's code gets.
#[derive(Clone)]
pub struct VerbCall {
    pub values: BTreeMap<&'static str, Vec<String>>,
    pub json: bool,
    pub api: Arc<dyn Api>,
    pub console: Arc<dyn Console>,
    /// Starts a worker in this process; `None` if a server is called.
    pub work: Option<Work>,
}

/// Runs jobs of every kind this binary knows until stopped.
pub type Work = Arc<dyn Fn() -> BoxFuture<'static, Result<Box<dyn Working>, VerbError>> + Send + Sync>;

pub trait Working: Send {
    /// Hands back leased jobs and ends.
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<(), VerbError>>;
}

impl VerbCall {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|values| values.first()).map(String::as_str)
    }

    pub fn all(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Calls a route; an error is reported under `what`.
    pub async fn ask(&self, what: &str, request: ApiRequest) -> Result<Value, VerbError> {
        self.api.call(request).await.map_err(|error| VerbError::of(what, error))
    }
}

/// The terminal. Control characters in text are made visible.
pub trait Console: Send + Sync {
    fn line(&self, text: &str) -> Result<(), VerbError>;
    /// To stderr, for people.
    fn note(&self, text: &str);
    fn json(&self, value: &Value) -> Result<(), VerbError>;
    /// A title that starts with `>` is right-aligned.
    fn table(&self, titles: &[&'static str], rows: Vec<Vec<String>>) -> Result<(), VerbError>;
    /// A progress bar on a terminal, plain lines elsewhere.
    fn progress(&self, unit: &'static str, total: Option<u64>) -> Box<dyn Progress>;
    /// Like [`Console::progress`], counted in bytes.
    fn bytes(&self, unit: &'static str, total: Option<u64>) -> Box<dyn Progress>;
}

pub trait Progress: Send {
    fn set(&mut self, done: u64);
    fn finish(&mut self, done: u64);
}

#[derive(Debug)]
pub struct VerbError {
    pub what: String,
    pub why: String,
    pub hint: Option<String>,
    /// 1 for failure, 2 for wrong usage.
    pub code: u8,
}

impl VerbError {
    pub fn new(what: impl Into<String>, why: impl ToString) -> VerbError {
        VerbError { what: what.into(), why: why.to_string(), hint: None, code: 1 }
    }

    pub fn usage(what: impl Into<String>, why: impl ToString) -> VerbError {
        VerbError { code: 2, ..VerbError::new(what, why) }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> VerbError {
        self.hint = Some(hint.into());
        self
    }
}

impl VerbError {
    /// From a refusal of a route, or from no response.
    pub fn of(what: impl Into<String>, error: ApiError) -> VerbError {
        match error {
            ApiError::Refused { status, code, detail, problem, .. } => {
                refused(what.into(), status, &code, &detail, &problem)
            }
            ApiError::Foreign { .. } => VerbError::new(what, error)
                .hint("check that --server or WINDLASS_SERVER names a windlass server"),
            ApiError::Unreachable { .. } => VerbError::new(what, error)
                .hint("check --server or WINDLASS_SERVER; without them the database is opened directly"),
        }
    }
}

/// Fields that come from the registry or a file rather than from an option.
const NOT_OPTIONS: [&str; 5] = ["kind", "queue", "payload", "permits", "body"];
const MISSING: &str = "there is no ";
const KNOWN: &str = "; known: ";

fn refused(what: String, status: StatusCode, code: &str, detail: &str, problem: &Value) -> VerbError {
    let broken = rules(problem);
    // `[3].kind` refers to a line of a file, `facets[0]` to a repeated option.
    let option =
        |field: &str| !field.starts_with('[') && !field.contains('.') && !NOT_OPTIONS.contains(&field);
    let error = match broken.problems.as_slice() {
        [] => unknown(what, detail),
        [one] if one.rule.starts_with(MISSING) => unknown(what, &one.rule),
        all if all.iter().all(|one| option(&one.field)) => VerbError::usage(what, &broken),
        _ => VerbError::new(what, &broken),
    };
    match (status, code) {
        (_, "queue_full") => error.hint("nothing was written; `windlass queues` shows the depths"),
        (_, "unknown_type") => error.hint("`windlass types` lists the types"),
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
            error.hint("WINDLASS_TOKEN holds the key; it needs the scope that the error names")
        }
        (_, "unique_rejected" | "idempotency_mismatch") => {
            error.hint("nothing was written; `windlass jobs show ID` shows that job")
        }
        (_, "invalid_input") => match detail.rsplit_once("; ") {
            Some((_, consequence)) if consequence.starts_with("nothing was") => error.hint(consequence),
            _ => error.hint("nothing was written"),
        },
        _ => error,
    }
}

/// An unknown name is the failure itself; the known names are its reason.
fn unknown(what: String, detail: &str) -> VerbError {
    match detail.split_once(KNOWN) {
        Some((missing, known)) if missing.starts_with(MISSING) => {
            VerbError::new(missing, format!("known: {known}"))
        }
        _ => VerbError::new(what, detail),
    }
}

/// All rules listed in a problem. A condition of a filter is an option here.
fn rules(problem: &Value) -> Invalid {
    let mut invalid = Invalid::default();
    for error in problem["errors"].as_array().map_or(&[][..], Vec::as_slice) {
        let text = |field: &str| error[field].as_str().unwrap_or_default();
        let field = text("field");
        invalid.add(field.strip_prefix("filter.").unwrap_or(field), text("rule"));
    }
    invalid
}
