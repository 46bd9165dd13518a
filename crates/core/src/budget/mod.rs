//! Budgets: money and tokens per month, reserved before they are spent.
//!
//! Owns amounts, months, the states and what each allows, and the rules: whether a call fits, which alerts fire, what
//! an operator's change does. Pure: a store calls them under the lock on the month's row and writes the result.

mod amount;
mod call;
mod change;
mod figures;
mod month;
mod spec;
mod state;

pub use amount::{Amount, BadAmount};
pub use call::{Alert, Estimate, Usage, user_of};
pub use change::BudgetChange;
pub use figures::{BudgetMonth, Limits, Refusal, RefusedWhy, Sums};
pub use month::{BadMonth, Month};
pub use spec::{AI, BudgetSpec, DEFAULT_CURRENCY, MAX_THRESHOLDS, Threshold, default_thresholds};
pub use state::{BudgetState, Level, MANUAL_TAG, STATES, Step, Trigger, UnknownLevel};
