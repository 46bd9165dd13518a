//! `top`: queues, workers and failures, continuously.
//!
//! Reads at most once a second; all lists are capped, and no large table is counted. On a terminal it draws and handles
//! keys; elsewhere it prints a plain table each time; with `--json` it prints one object and exits.

mod draw;
mod pace;
mod reading;
mod screen;
mod terminal;

use std::io::IsTerminal;

use windlass_core::duration;

use self::reading::{Reader, Reading};
use super::Session;
use crate::args::Top;
use crate::failure::{During, Failure};
use crate::output::job::seconds;
use crate::output::table::Table;

pub(crate) async fn run(session: &Session, args: &Top) -> Result<(), Failure> {
    let mut reader = Reader::new(session.api().await?);
    if args.json.json {
        return reader.ask().await.during("cannot read the queues")?.print(&session.output);
    }
    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        return terminal::run(session, reader, args.every).await;
    }
    loop {
        print(session, &reader.read().await?)?;
        tokio::select! {
            () = tokio::time::sleep(args.every) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

fn print(session: &Session, reading: &Reading) -> Result<(), Failure> {
    session.output.line(format_args!(
        "{}  {} alive",
        seconds(reading.at),
        crate::output::plural(reading.workers.len() as u64, "worker")
    ))?;
    let mut table =
        Table::new(&["queue", ">waiting", ">running", ">oldest", ">P95 (1 h)", ">SLA", ">done/s", "state"]);
    for queue in &reading.queues {
        table.row(vec![
            queue.name.clone(),
            queue.shown_depth(),
            queue.running.to_string(),
            queue.oldest().map_or("-".to_owned(), duration::rough),
            queue.p95().map_or("-".to_owned(), duration::rough),
            queue.sla().map_or("-".to_owned(), duration::format),
            format!("{:.1}", queue.completed_per_s),
            queue.state().to_owned(),
        ]);
    }
    table.print(&session.output)
}
