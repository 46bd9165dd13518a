//! `[entities.<type>]`: entity types in the configuration.

use windlass_core::entity::{DOCUMENT, Strategy, TextField};
use windlass_core::{Invalid, TypeSpec};
use windlass_pack::settings::{Form, Section, Setting, SettingValue, Settings};

const ENTITIES: Section = Section::named("entities", "<type>", "product").small().about(
    "One section per entity type. `document` is always there; PUT /v1/types/{type} adds one at run time.",
);

pub(super) fn declared() -> Vec<Setting> {
    let key = |name, default, about| Setting::new(ENTITIES, name, Form::Text, default, about);
    vec![
        key("text", "every field that is text", "Fields that are searched, such as `title^2, description`")
            .example("title^2, description")
            .checked(|value| texts(&value.to_string()).map(drop)),
        key("strategy", "async", "How its writes are indexed: sync, async or batch").checked(is_strategy),
        key("on_create", "the type's strategy", "The same for new entities")
            .example("sync")
            .checked(is_strategy),
        key("on_update", "the type's strategy", "The same for changed ones")
            .example("sync")
            .checked(is_strategy),
        key("on_delete", "the type's strategy", "The same for deleted ones")
            .example("sync")
            .checked(is_strategy),
    ]
}

fn is_strategy(value: &SettingValue) -> Result<(), String> {
    value.to_string().parse::<Strategy>().map(drop).map_err(|rule| rule.to_string())
}

/// Checks what no single key shows: the name of the type and its fields together.
pub(super) fn check(settings: &Settings) -> Invalid {
    let mut invalid = Invalid::default();
    for spec in types(settings) {
        for problem in spec.check().err().unwrap_or_default().problems {
            invalid.add(format!("entities.{}.{}", spec.name, problem.field), problem.rule);
        }
    }
    invalid
}

/// Every type the configuration names.
pub(super) fn types(settings: &Settings) -> Vec<TypeSpec> {
    settings.names(ENTITIES).into_iter().map(|name| spec(settings, name)).collect()
}

fn spec(settings: &Settings, name: &str) -> TypeSpec {
    let said = |key| settings.configured(ENTITIES, Some(name), key).map(SettingValue::to_string);
    let mut spec = if name == DOCUMENT { TypeSpec::document() } else { TypeSpec::named(name) };
    if let Some(Ok(fields)) = said("text").map(|text| texts(&text)) {
        spec.text = fields;
    }
    for (key, place) in [
        ("strategy", &mut spec.strategy),
        ("on_create", &mut spec.on_create),
        ("on_update", &mut spec.on_update),
        ("on_delete", &mut spec.on_delete),
    ] {
        if let Some(Ok(strategy)) = said(key).map(|text| text.parse()) {
            *place = Some(strategy);
        }
    }
    spec
}

/// Parses `title^2, description`: field names with weights.
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

    #[test]
    fn types_are_read_from_their_keys_and_a_bad_name_is_reported() {
        let mut settings = Settings::new(declared());
        let text = |text: &str| SettingValue::Text(text.to_owned());
        settings.set(ENTITIES, Some("product"), "text", text("name^3"));
        settings.set(ENTITIES, Some("product"), "on_delete", text("sync"));
        settings.set(ENTITIES, Some("2fast"), "strategy", text("batch"));
        let types = types(&settings);
        assert_eq!(types[1].text, [TextField { name: "name".to_owned(), weight: 3 }]);
        assert_eq!(types[1].on_delete, Some(Strategy::Sync));
        let problems = check(&settings).problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].field.starts_with("entities.2fast"), "{problems:?}");
        assert!(declared()[1].read("sometimes").is_err());
    }
}
