//! What the configuration says about entity types.

use windlass_core::TypeSpec;
use windlass_core::entity::TextField;

use super::keys::{self, Section};
use super::raw::{Origin, RawConfig, Value};

/// Every type the configuration names; problems go to `raw`.
pub(super) fn resolve(raw: &mut RawConfig) -> Vec<TypeSpec> {
    let mut types = Vec::new();
    for name in raw.names(Section::Entity) {
        let said = |key| match raw.get(Section::Entity, Some(&name), key) {
            Some((Value::Text(text), origin)) => Some((text.clone(), origin.clone())),
            _ => None,
        };
        let mut spec = TypeSpec::named(&name);
        if name == windlass_core::entity::DOCUMENT {
            spec = TypeSpec::document();
        }
        let mut problems: Vec<(Origin, String)> = Vec::new();
        if let Some((text, origin)) = said("text") {
            match texts(&text) {
                Ok(fields) => spec.text = fields,
                Err(rule) => problems.push((origin, format!("entities.{name}.text: {rule}"))),
            }
        }
        for (key, place) in [
            ("strategy", &mut spec.strategy),
            ("on_create", &mut spec.on_create),
            ("on_update", &mut spec.on_update),
            ("on_delete", &mut spec.on_delete),
        ] {
            let Some((text, origin)) = said(key) else { continue };
            match text.parse() {
                Ok(strategy) => *place = Some(strategy),
                Err(rule) => problems.push((origin, format!("entities.{name}.{key}: {rule}"))),
            }
        }
        let any = keys::in_section(Section::Entity).find_map(|key| said(key.name)).map(|(_, origin)| origin);
        for problem in spec.check().err().map(|invalid| invalid.problems).unwrap_or_default() {
            let origin = any.clone().unwrap_or(Origin::Default);
            problems.push((origin, format!("entities.{name}.{}: {}", problem.field, problem.rule)));
        }
        for (origin, text) in problems {
            raw.problem(origin, text);
        }
        types.push(spec);
    }
    types
}

/// `title^2, description`: names with how often their words count.
fn texts(text: &str) -> Result<Vec<TextField>, String> {
    let field = |part: &str| match part.trim().rsplit_once('^') {
        None => Ok(TextField { name: part.trim().to_owned(), weight: 1 }),
        Some((name, weight)) => match weight.trim().parse() {
            Ok(weight) => Ok(TextField { name: name.trim().to_owned(), weight }),
            Err(_) => Err(format!("the weight of `{}` must be a number", name.trim())),
        },
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fields_have_names_and_weights() {
        let fields = texts("title^2, description").unwrap();
        assert_eq!(fields[0], TextField { name: "title".to_owned(), weight: 2 });
        assert_eq!(fields[1], TextField { name: "description".to_owned(), weight: 1 });
        assert!(texts("").unwrap().is_empty());
        assert!(texts("title^x").unwrap_err().contains("title"));
    }
}
