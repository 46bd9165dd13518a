//! `migrate up|down|status`: the schema of either database, and the tables of the parts.

use serde_json::{Value, json};
use windlass_core::{Store, StoreError};
use windlass_pack::Assembly;

use super::Session;
use crate::args::MigrateVerb;
use crate::failure::{During, Failure};
use crate::output::table::Table;

pub(crate) async fn run(session: &Session, verb: &MigrateVerb) -> Result<(), Failure> {
    let create = matches!(verb, MigrateVerb::Up(_));
    let store = session.open(&session.config.database, create).await?;
    let assembly = session.assembly()?;
    match verb {
        MigrateVerb::Up(json) => up(session, store.as_ref(), &assembly, json.json).await,
        MigrateVerb::Down { to, pack: None, json } => {
            let to = to.ok_or_else(|| {
                Failure::usage("cannot migrate down", "--to says how far; 0 removes everything")
            })?;
            down(session, store.as_ref(), to, json.json).await
        }
        MigrateVerb::Down { to, pack: Some(pack), json } => {
            let to = to.unwrap_or_default();
            down_pack(session, store.as_ref(), &assembly, (pack, to), json.json).await
        }
        MigrateVerb::Status(json) => status(session, store.as_ref(), &assembly, json.json).await,
    }
}

async fn up(session: &Session, store: &dyn Store, assembly: &Assembly, json: bool) -> Result<(), Failure> {
    let address = &session.config.database.address;
    let applied = store.migrate_up(None).await.during("cannot migrate up")?;
    let of_parts = assembly.migrate(store).await.during("cannot migrate the parts")?;
    if json {
        let packs: Vec<Value> =
            of_parts.iter().map(|(pack, version)| json!({ "pack": pack, "version": version })).collect();
        return session.output.json(&json!({ "applied": applied, "reverted": [], "packs": packs }));
    }
    let mut done: Vec<String> = applied.iter().map(i64::to_string).collect();
    done.extend(of_parts.iter().map(|(pack, version)| format!("{pack} {version}")));
    match done.is_empty() {
        true => session.output.line(format_args!("{address} is up to date")),
        false => session.output.line(format_args!("applied {} to {address}", done.join(", "))),
    }
}

async fn down(session: &Session, store: &dyn Store, to: i64, json: bool) -> Result<(), Failure> {
    let known = store.migrations().await.during("cannot read the migrations")?;
    if to != 0 && !known.iter().any(|migration| migration.version == to) {
        let versions: Vec<i64> = known.iter().map(|migration| migration.version).collect();
        let why = format!("there is no version {to}; known: 0, {}", list(&versions));
        return Err(Failure::new("cannot migrate down", why).hint("`windlass migrate status` lists them"));
    }
    let reverted = store.migrate_down(to).await.during("cannot migrate down")?;
    tell_reverted(session, None, &reverted, json)
}

async fn down_pack(
    session: &Session,
    store: &dyn Store,
    assembly: &Assembly,
    (pack, to): (&str, i64),
    json: bool,
) -> Result<(), Failure> {
    let what = format!("cannot migrate {pack} down");
    let migrations = assembly.migrations();
    let Some((_, steps)) = migrations.iter().find(|(known, _)| *known == pack) else {
        let known: Vec<&str> = migrations.iter().map(|(known, _)| *known).collect();
        let why = match known.is_empty() {
            true => "no part of this binary has tables of its own".to_owned(),
            false => format!("this binary has no such part with tables; known: {}", known.join(", ")),
        };
        return Err(Failure::usage(what, why));
    };
    if to != 0 && !steps.iter().any(|step| step.version == to) {
        let versions: Vec<i64> = steps.iter().map(|step| step.version).collect();
        let why = format!("{pack} has no version {to}; known: 0, {}", list(&versions));
        return Err(Failure::new(what, why).hint("`windlass migrate status` lists them"));
    }
    let reverted = store.migrate_pack_down(pack, steps, to).await.during(what)?;
    tell_reverted(session, Some(pack), &reverted, json)
}

fn tell_reverted(session: &Session, pack: Option<&str>, reverted: &[i64], json: bool) -> Result<(), Failure> {
    let (output, address) = (&session.output, &session.config.database.address);
    if json {
        return output.json(&json!({ "pack": pack, "applied": [], "reverted": reverted }));
    }
    let of = pack.map(|pack| format!("{pack} ")).unwrap_or_default();
    match (reverted.is_empty(), pack) {
        (true, None) => output.line(format_args!("{address} is already there")),
        (true, Some(pack)) => output.line(format_args!("{pack} is already there in {address}")),
        (false, _) => output.line(format_args!("reverted {of}{} in {address}", list(reverted))),
    }
}

async fn status(
    session: &Session,
    store: &dyn Store,
    assembly: &Assembly,
    json: bool,
) -> Result<(), Failure> {
    let what = "cannot read the migrations";
    let mut items: Vec<Value> = Vec::new();
    for migration in store.migrations().await.during(what)? {
        let at = migration.applied_at.map(|at| at.to_string());
        items.push(json!({
            "pack": null, "version": migration.version, "name": migration.name, "applied_at": at,
        }));
    }
    let applied = match store.pack_migrations().await {
        // Without a schema there are no tables of parts.
        Err(StoreError::SchemaMissing) => Vec::new(),
        applied => applied.during(what)?,
    };
    for (pack, steps) in assembly.migrations() {
        for step in steps {
            let row = applied.iter().find(|row| row.pack == pack && row.version == step.version);
            let at = row.map(|row| row.applied_at.to_string());
            items.push(json!({
                "pack": pack, "version": step.version, "name": step.name, "applied_at": at,
            }));
        }
    }
    // Includes tables of parts that this binary does not have.
    let known = |pack: &str| assembly.migrations().iter().any(|(known, _)| *known == pack);
    for row in applied.iter().filter(|row| !known(&row.pack)) {
        let at = row.applied_at.to_string();
        items.push(json!({
            "pack": row.pack, "version": row.version, "name": row.name, "applied_at": at,
        }));
    }
    if json {
        return session.output.json(&json!({ "items": items }));
    }
    let mut table = Table::new(&["part", ">version", "name", "applied"]);
    for item in items {
        let text = |field: &str, none: &str| item[field].as_str().unwrap_or(none).to_owned();
        let version = item["version"].to_string();
        table.row(vec![text("pack", "–"), version, text("name", ""), text("applied_at", "not yet")]);
    }
    table.print(&session.output)
}

fn list(versions: &[i64]) -> String {
    versions.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}
