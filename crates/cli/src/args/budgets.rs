//! `budgets list|history|set|reset`.

use clap::{Args, Subcommand};
use windlass_core::budget::{Amount, BadAmount, BadMonth, Month};

use super::Json;

#[derive(Args)]
#[command(after_help = "Examples:\n  windlass budgets\n  windlass budgets history ai --months 3\n  \
    windlass budgets set ai --limit 750.00\n  windlass budgets reset ai\n\n\
    Budgets are described under [budgets.NAME] in windlass.toml. A changed limit holds for one month.\n\
    Jobs that wait for the next one go on at once with\n\
    `windlass jobs retry --kind KIND --state scheduled --yes`.")]
pub(crate) struct Budgets {
    #[command(subcommand)]
    pub(crate) verb: Option<BudgetsVerb>,
    #[command(flatten)]
    pub(crate) list: Json,
}

#[derive(Subcommand)]
pub(crate) enum BudgetsVerb {
    /// State, used and limit of this month, and what the money went to (also without a verb)
    List(Json),
    /// The months of a budget that have figures, newest first
    History {
        /// Name of the budget
        #[arg(value_name = "NAME")]
        name: String,
        /// How far back, this month included
        #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=120))]
        months: u32,
        #[command(flatten)]
        json: Json,
    },
    /// Change the limits of one month, at once
    Set {
        /// Name of the budget
        #[arg(value_name = "NAME")]
        name: String,
        /// Money, such as 750.00
        #[arg(long, value_name = "AMOUNT", value_parser = amount, allow_hyphen_values = true, required_unless_present = "tokens")]
        limit: Option<Amount>,
        /// Tokens, input and output together
        #[arg(long, value_name = "N")]
        tokens: Option<u64>,
        /// This month or one ahead, such as 2026-11 [default: this month]
        #[arg(long, value_name = "MONTH", value_parser = month)]
        month: Option<Month>,
        #[command(flatten)]
        json: Json,
    },
    /// Forget what this month has used; calls under way stay reserved
    Reset {
        /// Name of the budget
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        json: Json,
    },
}

fn amount(text: &str) -> Result<Amount, String> {
    text.parse().map_err(|error: BadAmount| error.to_string())
}

fn month(text: &str) -> Result<Month, String> {
    text.parse().map_err(|error: BadMonth| error.to_string())
}
