//! `migrate up|down|status`: the schema of either database.

use serde::Serialize;

use super::Session;
use crate::args::MigrateVerb;
use crate::failure::{During, Failure};
use crate::output::table::Table;

#[derive(Serialize)]
struct Moved {
    applied: Vec<i64>,
    reverted: Vec<i64>,
}

#[derive(Serialize)]
struct Status {
    items: Vec<MigrationView>,
}

#[derive(Serialize)]
struct MigrationView {
    version: i64,
    name: String,
    applied_at: Option<String>,
}

pub(crate) async fn run(session: &Session, verb: &MigrateVerb) -> Result<(), Failure> {
    let output = &session.output;
    let database = &session.config.database;
    let store = session.open(database, matches!(verb, MigrateVerb::Up(_))).await?;
    match verb {
        MigrateVerb::Up(json) => {
            let applied = store.migrate_up(None).await.during("cannot migrate up")?;
            if json.json {
                return output.json(&Moved { applied, reverted: Vec::new() });
            }
            match applied.is_empty() {
                true => output.line(format_args!("{} is up to date", database.address)),
                false => output.line(format_args!("applied {} to {}", list(&applied), database.address)),
            }
        }
        MigrateVerb::Down { to, json } => {
            let known = store.migrations().await.during("cannot read the migrations")?;
            if *to != 0 && !known.iter().any(|migration| migration.version == *to) {
                let versions: Vec<i64> = known.iter().map(|migration| migration.version).collect();
                let why = format!("there is no version {to}; known: 0, {}", list(&versions));
                return Err(
                    Failure::new("cannot migrate down", why).hint("`windlass migrate status` lists them")
                );
            }
            let reverted = store.migrate_down(*to).await.during("cannot migrate down")?;
            if json.json {
                return output.json(&Moved { applied: Vec::new(), reverted });
            }
            match reverted.is_empty() {
                true => output.line(format_args!("{} is already there", database.address)),
                false => output.line(format_args!("reverted {} in {}", list(&reverted), database.address)),
            }
        }
        MigrateVerb::Status(json) => {
            let migrations = store.migrations().await.during("cannot read the migrations")?;
            let items: Vec<MigrationView> = migrations
                .into_iter()
                .map(|migration| MigrationView {
                    version: migration.version,
                    name: migration.name,
                    applied_at: migration.applied_at.map(|at| at.to_string()),
                })
                .collect();
            if json.json {
                return output.json(&Status { items });
            }
            let mut table = Table::new(&[">version", "name", "applied"]);
            for item in items {
                let applied = item.applied_at.unwrap_or_else(|| "not yet".to_owned());
                table.row(vec![item.version.to_string(), item.name, applied]);
            }
            table.print(output)
        }
    }
}

fn list(versions: &[i64]) -> String {
    versions.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}
