//! Budgets: money and tokens per month, reserved before they are spent.
//!
//! Owns amounts, months, the states with what each allows, and the rules: whether a call fits, which alerts are due, what
//! an operator's change does. Pure; the stores ask under the lock of the budget's month and write down the answer.

mod amount;
mod call;
mod change;
mod month;
mod spec;
mod standing;
mod state;

pub use amount::{Amount, BadAmount};
pub use call::{Alert, Estimate, Usage, user_of};
pub use change::BudgetChange;
pub use month::{BadMonth, Month};
pub use spec::{AI, BudgetSpec, DEFAULT_CURRENCY, MAX_THRESHOLDS, Threshold, default_thresholds};
pub use standing::{Limits, Refusal, RefusedWhy, Standing, Sums};
pub use state::{BudgetState, Level, MANUAL_TAG, STATES, Step, Trigger, UnknownLevel};
