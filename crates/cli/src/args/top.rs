//! Arguments of `top`.

use std::time::Duration;

use clap::Args;

use super::{Json, examples};

#[derive(Args)]
#[command(after_help = examples::TOP_VIEW)]
pub(crate) struct Top {
    /// Time between updates, at least a second [default: 1s]
    #[arg(long, value_name = "DURATION", default_value = "1s", hide_default_value = true, value_parser = pause)]
    pub(crate) every: Duration,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// Watching must not load the database.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = windlass_core::duration::parse(text).map_err(|error| error.to_string())?;
    if pause < Duration::from_secs(1) {
        return Err("must be at least 1s".to_owned());
    }
    Ok(pause)
}
