//! `budgets list|history|set|reset`.

use clap::{Args, Subcommand};
use windlass_core::budget::{Amount, BadAmount, BadMonth, Month};
use windlass_core::store::{CONFIGURED, Live};

use super::Json;

#[derive(Args)]
#[command(after_help = "Examples:\n  windlass budgets\n  windlass budgets history ai --months 3\n  \
    windlass budgets set ai --limit 750.00\n  windlass budgets set ai --tokens none\n  windlass budgets reset ai\n\n\
    Budgets are configured under [budgets.NAME] in windlass.toml. A changed limit applies to one month.\n\
    To continue jobs that wait for the next month at once, run\n\
    `windlass jobs retry --kind KIND --state scheduled --yes`.")]
pub(crate) struct Budgets {
    #[command(subcommand)]
    pub(crate) verb: Option<BudgetsVerb>,
    #[command(flatten)]
    pub(crate) list: Json,
}

#[derive(Subcommand)]
pub(crate) enum BudgetsVerb {
    /// State, usage and limit of this month, and costs (also without a verb)
    List(Json),
    /// Months of a budget with figures, and future ones with live limits; newest first
    History {
        /// Name of the budget
        #[arg(value_name = "NAME")]
        name: String,
        /// How many months, including this one
        #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=120))]
        months: u32,
        #[command(flatten)]
        json: Json,
    },
    /// Change the limits of one month, effective at once
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Set {
        /// Name of the budget
        #[arg(value_name = "NAME")]
        name: String,
        /// Money, such as 750.00; none removes the limit, configured resets it to the configured one
        #[arg(long, group = "change", value_name = "AMOUNT", value_parser = amount, allow_hyphen_values = true)]
        limit: Option<Live<Option<Amount>>>,
        /// Tokens, input and output together; or none, or configured
        #[arg(long, group = "change", value_name = "N", value_parser = tokens)]
        tokens: Option<Live<Option<u64>>>,
        /// This month or a future one, such as 2026-11 [default: this month]
        #[arg(long, value_name = "MONTH", value_parser = month)]
        month: Option<Month>,
        #[command(flatten)]
        json: Json,
    },
    /// Set this month's usage to zero; running calls stay reserved
    Reset {
        /// Name of the budget
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        json: Json,
    },
}

const NONE: &str = "none";

fn amount(text: &str) -> Result<Live<Option<Amount>>, String> {
    limit(text, |text| text.parse().map_err(|error: BadAmount| error.to_string()))
}

fn tokens(text: &str) -> Result<Live<Option<u64>>, String> {
    limit(text, |text| text.parse().map_err(|_| format!("must be a whole number, {NONE} or {CONFIGURED}")))
}

fn limit<T>(text: &str, value: impl Fn(&str) -> Result<T, String>) -> Result<Live<Option<T>>, String> {
    match text {
        NONE => Ok(Live::Set(None)),
        CONFIGURED => Ok(Live::Configured),
        text => value(text).map(|value| Live::Set(Some(value))),
    }
}

fn month(text: &str) -> Result<Month, String> {
    text.parse().map_err(|error: BadMonth| error.to_string())
}
