//! Options of `queues set` and `kinds set`, one per limit in `core::limit`.

use std::marker::PhantomData;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use windlass_core::limit::{Lift, Limit, LimitForm, LimitValue, Limited, LiveChanges, NONE};
use windlass_core::store::{CONFIGURED, Live};

/// Changed limits of a queue or kind. At least one is required: all are in the group `change`.
pub(crate) struct LimitArgs<S> {
    pub(crate) changes: LiveChanges,
    of: PhantomData<S>,
}

impl<S: Limited> Args for LimitArgs<S> {
    fn augment_args(command: Command) -> Command {
        S::limits().fold(command, |command, limit| command.arg(option(limit)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Limited> FromArgMatches for LimitArgs<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<LimitArgs<S>, clap::Error> {
        let change = |limit: &'static Limit| {
            let live = matches.get_one::<Live<Option<LimitValue>>>(limit.name)?;
            Some((limit.name, *live))
        };
        Ok(LimitArgs { changes: S::limits().filter_map(change).collect(), of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = LimitArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

fn option(limit: &'static Limit) -> Arg {
    let value = match limit.form {
        LimitForm::Number { .. } => "N",
        LimitForm::Duration => "DURATION",
        LimitForm::Rate => "RATE",
    };
    let none = if limit.lift == Lift::Never { String::new() } else { format!("|{NONE}") };
    Arg::new(limit.name)
        .long(limit.option())
        .value_name(format!("{value}{none}|{CONFIGURED}"))
        .help(limit.about.replace('`', ""))
        .group("change")
        .value_parser(move |text: &str| limit.read_live(text))
        .allow_negative_numbers(true)
}

/// Every limit has a configuration key, an HTTP field, an option and a row in docs/limits.md.
#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::Value as Json;
    use windlass_core::limit::LimitOwner;
    use windlass_core::{KindSpec, QueueSpec};

    use super::*;
    use crate::args::Cli;
    use crate::config::Keys;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");
    const HEAD: &str = "| limit | of | counted over | value | configured as | changed live | meaning |\n\
        |---|---|---|---|---|---|---|\n";

    /// Where limits of queues or kinds are set.
    struct Place {
        noun: &'static str,
        key: &'static str,
        name: &'static str,
        route: &'static str,
        bodies: [&'static str; 2],
    }

    const QUEUES: Place = Place {
        noun: "queues",
        key: "queues.<name>",
        name: "NAME",
        route: "PATCH /v1/queues/{name}",
        bodies: ["QueueChange", "Queue"],
    };
    const KINDS: Place = Place {
        noun: "kinds",
        key: "kinds.<KIND>",
        name: "KIND",
        route: "PUT /v1/kinds/{kind}",
        bodies: ["KindPut", "Kind"],
    };

    fn document() -> Json {
        let parts = crate::compose::Parts::new(false, &[]);
        let mut described = parts.described().unwrap_or_else(|_| panic!("the parts fit together"));
        serde_json::from_str(&windlass_http::document(&mut described)).unwrap()
    }

    fn check<S: Limited>(place: &Place, document: &Json) -> Vec<String> {
        let command = Cli::command();
        let set = command.find_subcommand(place.noun).and_then(|noun| noun.find_subcommand("set")).unwrap();
        let keys = Keys::default();
        let field = |body: &str, name: &str| {
            document["components"]["schemas"][body]["properties"].get(name).is_some()
        };
        let mut rows = Vec::new();
        for limit in S::limits() {
            let path = format!("{}.{}", place.key, limit.name);
            let key = keys.iter().find(|key| key.path() == path).unwrap_or_else(|| panic!("no key {path}"));
            let option = limit.option();
            assert!(
                set.get_arguments().any(|known| known.get_long() == Some(&option)),
                "no option --{option}"
            );
            let shown = limit.shown_name();
            let [request, response] = place.bodies;
            assert!(
                field(request, limit.name) && field(response, &shown),
                "{path} is no field of {request} or {response}"
            );
            rows.push(row(limit, place, &key.form.to_string()));
        }
        rows
    }

    fn row(limit: &Limit, Place { noun, key, name, route, .. }: &Place, form: &str) -> String {
        let of = match limit.owner {
            LimitOwner::Queue => "a queue",
            LimitOwner::Kind => "a kind",
            LimitOwner::Resource => "a resource",
        };
        let form =
            if limit.lift == Lift::Live { format!("{form}, live also `none`") } else { form.to_owned() };
        let set = format!("`{noun} set {name} --{}`, `{route}`", limit.option());
        let (limit_name, over, about) = (limit.name, limit.over, limit.about);
        format!("| `{limit_name}` | {of} | {over} | {form} | `{key}.{limit_name}` | {set} | {about} |\n")
    }

    #[test]
    fn every_limit_is_a_key_a_field_an_option_and_a_row_of_the_documentation() {
        let document = document();
        let mut table = HEAD.to_owned();
        table.extend(check::<QueueSpec>(&QUEUES, &document));
        table.extend(check::<KindSpec>(&KINDS, &document));
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once(HEAD).expect("the table's head");
        let old: usize =
            rest.lines().take_while(|line| line.starts_with('|')).map(|line| line.len() + 1).sum();
        let wanted = format!("{before}{table}{}", &rest[old..]);
        if std::env::var_os("WINDLASS_BLESS").is_some() {
            std::fs::write(PAGE, &wanted).unwrap();
        }
        let page = std::fs::read_to_string(PAGE).unwrap();
        assert!(
            page == wanted,
            "docs/limits.md differs from core::limit; WINDLASS_BLESS=1 rewrites its table"
        );
    }
}
