//! Parses `--filter NAME=VALUE` into a filter.
//!
//! Owns the notation on the command line. The route owns the meaning.

use serde_json::{Value, json};
use windlass_pack::verb::VerbError;

/// Longer operators first, so that `>=` is not read as `>` with a value that begins with `=`.
const OPERATORS: [(&str, &str); 6] =
    [(">=", "gte"), ("<=", "lte"), ("!=", "ne"), (">", "gt"), ("<", "lt"), ("=", "eq")];

/// A filter in which all conditions must hold.
pub(super) fn filter(conditions: &[String]) -> Result<Option<Value>, VerbError> {
    if conditions.is_empty() {
        return Ok(None);
    }
    let all: Vec<Value> = conditions.iter().map(|text| condition(text)).collect::<Result<_, _>>()?;
    Ok(Some(json!({ "all": all })))
}

fn condition(text: &str) -> Result<Value, VerbError> {
    let wrong = |why: &str| {
        let example = "write NAME=VALUE, or one of != < <= > >= between them, such as 'price<=20'";
        VerbError::usage("cannot search", format!("--filter {text}: {why}; {example}"))
    };
    let place = text.find(['=', '<', '>', '!']).ok_or_else(|| wrong("compares nothing"))?;
    let (name, rest) = (text[..place].trim(), &text[place..]);
    if name.is_empty() {
        return Err(wrong("names no field"));
    }
    let known = OPERATORS.iter().find_map(|(sign, test)| Some((rest.strip_prefix(sign)?, *test)));
    let (value, test) = known.ok_or_else(|| wrong("compares nothing"))?;
    // `price<<20` is a typing error. Without this check it would silently match nothing.
    if value.trim_start().starts_with(['=', '<', '>']) {
        return Err(wrong("compares twice; a value that begins with = < or > goes in double quotes"));
    }
    let values = readings(value.trim()).ok_or_else(|| wrong("its quotes do not end"))?;
    Ok(match test {
        "eq" => json!({ name: { "in": values } }),
        "ne" => json!({ "not": { name: { "in": values } } }),
        test => json!({ name: { test: values.first() } }),
    })
}

/// The possible meanings of a value. In quotes it is text. A bare `8001` or `true` is a number or boolean, and also
/// text, because the caller cannot know how it was stored.
fn readings(text: &str) -> Option<Vec<Value>> {
    if text.starts_with('"') {
        return serde_json::from_str::<String>(text).ok().map(|text| vec![Value::String(text)]);
    }
    let read = serde_json::from_str(text).ok();
    let read = read.filter(|value| matches!(value, Value::Number(_) | Value::Bool(_)));
    Some(read.into_iter().chain([Value::String(text.to_owned())]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_value_is_whatever_it_may_be_and_a_quoted_one_is_text() {
        for (text, expected) in [
            ("zip=8001", json!({ "zip": { "in": [8001, "8001"] } })),
            (r#"zip="8001""#, json!({ "zip": { "in": ["8001"] } })),
            ("zip=08001", json!({ "zip": { "in": ["08001"] } })),
            ("on = true", json!({ "on": { "in": [true, "true"] } })),
            ("name=a=b", json!({ "name": { "in": ["a=b"] } })),
            ("name=", json!({ "name": { "in": [""] } })),
            ("maker.country!=Japan", json!({ "not": { "maker.country": { "in": ["Japan"] } } })),
            ("price>=8", json!({ "price": { "gte": 8 } })),
            ("price<8.5", json!({ "price": { "lt": 8.5 } })),
            ("made>2026-01-01", json!({ "made": { "gt": "2026-01-01" } })),
            (r#"sign="<""#, json!({ "sign": { "in": ["<"] } })),
            (r#"zip<="8001""#, json!({ "zip": { "lte": "8001" } })),
        ] {
            assert_eq!(condition(text).unwrap(), expected, "{text}");
        }
        for wrong in ["price", "=8", "price!8", r#"zip="80"#, "price<<20", "price==20", "price>= >20"] {
            assert_eq!(condition(wrong).unwrap_err().code, 2, "{wrong}");
        }
    }
}
