//! Verbs of parts: adding them to the command line, and running them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg as ClapArg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value};
use windlass_core::duration;
use windlass_pack::Method;
use windlass_pack::api::ApiRequest;
use windlass_pack::page::{CellFormat, Column};
use windlass_pack::verb::{Arg, Does, Goes, Verb, VerbCall, VerbError};

use super::answer::items;
use super::console::Terminal;
use crate::commands::Session;
use crate::failure::{During, Failure};
use crate::output::table::Table;
use crate::output::{Output, more, visible};

/// Adds the parts' nouns and verbs to the command line.
pub(crate) fn extend(mut command: Command, verbs: &[Verb]) -> Command {
    let nouns: BTreeSet<&'static str> = verbs.iter().map(|verb| verb.noun).collect();
    for noun in nouns {
        let of_noun: Vec<&Verb> = verbs.iter().filter(|verb| verb.noun == noun).collect();
        let bare = of_noun.iter().find(|verb| verb.name.is_empty());
        let mut sub = match bare {
            Some(verb) => described(Command::new(noun), verb),
            None => Command::new(noun).about(about(&of_noun)).arg(json_flag()),
        };
        for verb in of_noun.iter().filter(|verb| !verb.name.is_empty()) {
            sub = sub.subcommand(described(Command::new(verb.name), verb));
        }
        // A bare noun means `list`.
        if bare.is_none() && !of_noun.iter().any(|verb| verb.name == "list") {
            sub = sub.subcommand_required(true).arg_required_else_help(true);
        }
        command = command.subcommand(sub);
    }
    command
}

fn about(verbs: &[&Verb]) -> String {
    let about_noun = verbs.iter().map(|verb| verb.noun_about).find(|about| !about.is_empty());
    about_noun.or(verbs.first().map(|verb| verb.about)).unwrap_or_default().to_owned()
}

fn json_flag() -> ClapArg {
    ClapArg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON object instead of a table")
}

fn described(command: Command, verb: &Verb) -> Command {
    let mut command = command.about(verb.about).arg(json_flag()).after_help(verb.examples);
    for arg in &verb.args {
        command = command.arg(one(arg));
    }
    command
}

fn one(arg: &Arg) -> ClapArg {
    let mut clap = ClapArg::new(arg.name).help(arg.about).required(arg.required);
    if !arg.positional {
        clap = clap.long(arg.name);
    }
    if arg.switch {
        return clap.action(ArgAction::SetTrue);
    }
    if !arg.value.is_empty() {
        clap = clap.value_name(arg.value);
    }
    clap.action(if arg.many { ArgAction::Append } else { ArgAction::Set })
}

/// The verb that was typed, with its values; `None` if the noun belongs to no part.
pub(crate) fn chosen(verbs: &[Verb], matches: &ArgMatches) -> Option<Chosen> {
    let (noun, within) = matches.subcommand()?;
    let named = |name: &str| verbs.iter().find(|verb| verb.noun == noun && verb.name == name);
    let (verb, values) = match within.subcommand() {
        Some((name, values)) => (named(name)?, values),
        None => (named("").or_else(|| named("list"))?, within),
    };
    let bare = within.subcommand().is_none();
    if let Some(missing) = verb.args.iter().find(|arg| arg.required && bare && !verb.name.is_empty()) {
        let (name, hole) = (verb.name, if missing.positional { "" } else { "--" });
        let text = format!("<{hole}{}> is missing: windlass {noun} {name} <{hole}{0}>", missing.name);
        Command::new("windlass").error(ErrorKind::MissingRequiredArgument, text).exit();
    }
    let mut given = BTreeMap::new();
    for arg in &verb.args {
        match arg.switch {
            true if values.get_flag(arg.name) => drop(given.insert(arg.name, Vec::new())),
            true => {}
            false => {
                // A bare noun means `list`, but without its options.
                let many = values.try_get_many::<String>(arg.name).ok().flatten();
                if let Some(many) = many {
                    given.insert(arg.name, many.cloned().collect());
                }
            }
        }
    }
    Some(Chosen { verb: verb.clone(), values: given, json: values.get_flag("json") })
}

/// A part's verb as typed.
pub(crate) struct Chosen {
    verb: Verb,
    values: BTreeMap<&'static str, Vec<String>>,
    json: bool,
}

impl Chosen {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Chosen { verb, values, json } = self;
        let api = if verb.creates { session.creating_api().await? } else { session.api().await? };
        match verb.does {
            Does::Call { method, path, columns, empty } => {
                let request = request(method, path, &verb.args, &values);
                let what = format!("`{} {}` failed", verb.noun, verb.name).replace(" `", "`");
                let answer = api.call(request).await.during(what)?;
                show(&session.output, &answer, &columns, empty, json)
            }
            Does::Run(run) => {
                let console = Arc::new(Terminal { output: session.output });
                run(VerbCall { values, json, api, console, work: session.work() }).await.map_err(into_failure)
            }
        }
    }
}

pub(crate) fn into_failure(error: VerbError) -> Failure {
    if error.what.is_empty() {
        return if error.code == 0 { Failure::Pipe } else { Failure::Silent(error.code) };
    }
    let failure = match error.code {
        2 => Failure::usage(error.what, error.why),
        _ => Failure::new(error.what, error.why),
    };
    match error.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn request(
    method: Method,
    path: &'static str,
    args: &[Arg],
    values: &BTreeMap<&'static str, Vec<String>>,
) -> ApiRequest {
    let first = |name: &str| values.get(name).and_then(|given| given.first()).map(String::as_str);
    let holes: Vec<&str> =
        args.iter().filter(|arg| arg.goes == Goes::Path).map(|arg| first(arg.name).unwrap_or("")).collect();
    let mut request = ApiRequest::new(method, path, &holes);
    let mut body = Map::new();
    for arg in args {
        let Some(given) = values.get(arg.name) else { continue };
        let name = arg.name.replace('-', "_");
        match arg.goes {
            Goes::Query if arg.switch => request = request.query(&name, Some(true)),
            Goes::Query => {
                for value in given {
                    request = request.query(&name, Some(value));
                }
            }
            Goes::Field => drop(body.insert(name, field(arg, given))),
            Goes::Path | Goes::Code => {}
        }
    }
    if body.is_empty() { request } else { request.json(&Value::Object(body)) }
}

fn field(arg: &Arg, given: &[String]) -> Value {
    let value = |text: &String| Value::String(text.clone());
    match (arg.switch, arg.many) {
        (true, _) => Value::Bool(true),
        (false, true) => given.iter().map(value).collect(),
        (false, false) => given.first().map_or(Value::Null, value),
    }
}

/// A list as a table, an object as one line per column; everything with `--json`.
pub(crate) fn show(
    output: &Output,
    answer: &Value,
    columns: &[Column],
    empty: &str,
    json: bool,
) -> Result<(), Failure> {
    if json {
        return output.json(answer);
    }
    if answer.is_null() {
        return output.line("done");
    }
    let Some(_) = answer["items"].as_array() else {
        let width = columns.iter().map(|column| column.title.chars().count()).max().unwrap_or_default();
        for column in columns {
            let value = visible(&cell(answer, column));
            output.line(format_args!("{:<width$}  {value}", column.title))?;
        }
        return Ok(());
    };
    let rows = items(answer);
    if rows.is_empty() {
        return output.line(empty);
    }
    let mut table = Table::of(columns.iter().map(|column| (column.title, column.look == CellFormat::Number)));
    for row in rows {
        table.row(columns.iter().map(|column| cell(row, column)).collect());
    }
    table.print(output)?;
    more(output, answer);
    Ok(())
}

fn cell(row: &Value, column: &Column) -> String {
    let value = column.field.split('.').fold(row, |value, field| &value[field]);
    match (column.look, value) {
        (_, Value::Null) => "–".to_owned(),
        (CellFormat::Seconds, value) => match value.as_f64().map(Duration::try_from_secs_f64) {
            Some(Ok(time)) => duration::rough(time),
            _ => "–".to_owned(),
        },
        (_, Value::String(text)) => text.clone(),
        (_, Value::Array(list)) => {
            let each = list.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned));
            each.collect::<Vec<_>>().join(", ")
        }
        (_, other) => other.to_string(),
    }
}
