//! `types list|show`.

use windlass_core::TypeSpec;
use windlass_core::entity::{Operation, resolve};
use windlass_http::view::{ListView, TypeView};

use super::Desk;
use crate::commands::Session;
use crate::failure::{During, Failure};
use crate::output::table::Table;

pub(crate) async fn list(session: &Session, json: bool) -> Result<(), Failure> {
    let desk = Desk::open(session).await?;
    let types = desk.entities.types().await.during("cannot list types")?;
    if json {
        let items = types.iter().map(|spec| TypeView::from(spec.as_ref())).collect();
        return session.output.json(&ListView::whole(items));
    }
    let mut table = Table::new(&["type", "text fields", "create", "update", "delete"]);
    for spec in types {
        let resolved = TypeView::from(spec.as_ref()).resolved;
        table.row(vec![
            spec.name.clone(),
            texts(&spec),
            resolved.create.to_owned(),
            resolved.update.to_owned(),
            resolved.delete.to_owned(),
        ]);
    }
    table.print(&session.output)
}

pub(crate) async fn show(session: &Session, name: &str, json: bool) -> Result<(), Failure> {
    let desk = Desk::open(session).await?;
    let spec = desk.entities.type_named(name).await.during("cannot show the type")?;
    if json {
        return session.output.json(&TypeView::from(spec.as_ref()));
    }
    let output = &session.output;
    output.line(format_args!("type {}", crate::output::visible(&spec.name)))?;
    output.line(format_args!("  text fields    {}", crate::output::visible(&texts(&spec))))?;
    for operation in [Operation::Create, Operation::Update, Operation::Delete] {
        let resolved = resolve(None, operation, &spec);
        output.line(format_args!(
            "  {:<14} {} ({})",
            operation.name(),
            resolved.strategy.name(),
            resolved.because
        ))?;
    }
    Ok(())
}

fn texts(spec: &TypeSpec) -> String {
    if spec.text.is_empty() {
        return "every field that is text".to_owned();
    }
    let field = |field: &windlass_core::entity::TextField| match field.weight {
        1 => field.name.clone(),
        weight => format!("{} ×{weight}", field.name),
    };
    spec.text.iter().map(field).collect::<Vec<_>>().join(", ")
}
