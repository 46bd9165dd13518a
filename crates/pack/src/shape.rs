//! Wire types and their schemas: one definition gives the Rust struct and its schema in the OpenAPI document.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// A type with a schema.
pub trait Shape {
    /// The schema at the place of use: inline for a plain value, a reference for an object.
    fn schema(schemas: &mut Schemas) -> Value;
}

/// The named schemas of a document.
#[derive(Default)]
pub struct Schemas {
    named: Map<String, Value>,
}

impl Schemas {
    /// Adds an object under its name, once, and returns a reference to it.
    pub fn object(&mut self, name: &str, about: &str, fields: impl FnOnce(&mut Object<'_>)) -> Value {
        if !self.named.contains_key(name) {
            // Inserted before its fields, because one of them may refer to the object itself.
            self.named.insert(name.to_owned(), Value::Null);
            let mut object = Object { schemas: self, fields: Map::new(), required: Vec::new() };
            fields(&mut object);
            let (properties, required) = (object.fields, object.required);
            let mut schema =
                json!({ "type": "object", "additionalProperties": false, "properties": properties });
            if !about.is_empty() {
                schema["description"] = json!(about.trim());
            }
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            self.named.insert(name.to_owned(), schema);
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// Allows further fields with this schema in a named object.
    pub fn open(&mut self, name: &str, further: Value) {
        if let Some(schema) = self.named.get_mut(name) {
            schema["additionalProperties"] = further;
        }
    }

    pub fn into_named(self) -> Map<String, Value> {
        self.named
    }
}

/// The fields of an object being described.
pub struct Object<'a> {
    schemas: &'a mut Schemas,
    fields: Map<String, Value>,
    required: Vec<String>,
}

impl Object<'_> {
    pub fn required<T: Shape>(&mut self, name: &str, about: &str) {
        let name = name.trim_start_matches("r#");
        let schema = T::schema(self.schemas);
        self.field(name, schema, about);
        self.required.push(name.to_owned());
    }

    /// A field of a request that may be left out. `null` says the same: [`crate::fields::Fields`] reads it as missing.
    pub fn optional<T: Shape>(&mut self, name: &str, about: &str) {
        let schema = Option::<T>::schema(self.schemas);
        self.field(name, schema, about);
    }

    /// A field of an answer that is left out if it is empty.
    pub fn absent_if_empty<T: Shape>(&mut self, name: &str, about: &str) {
        let schema = T::schema(self.schemas);
        self.field(name, schema, about);
    }

    /// A field with an explicit schema.
    pub(crate) fn field(&mut self, name: &str, mut schema: Value, about: &str) {
        if !about.is_empty() {
            schema["description"] = json!(about.trim());
        }
        self.fields.insert(name.to_owned(), schema);
    }

    /// All fields of another object, as with `serde(flatten)`.
    pub fn flatten<T: Shape>(&mut self) {
        let reference = T::schema(self.schemas);
        let name = reference["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let Some(Value::Object(schema)) = self.schemas.named.get(name) else { return };
        if let Some(Value::Object(fields)) = schema.get("properties") {
            self.fields.extend(fields.clone());
        }
        if let Some(Value::Array(required)) = schema.get("required") {
            self.required.extend(required.iter().filter_map(|name| name.as_str().map(str::to_owned)));
        }
    }
}

/// A serializable struct with its [`Shape`]. Doc comments become descriptions. Every field is always present.
#[macro_export]
macro_rules! shape {
    ($(#[doc = $about:literal])* pub struct $name:ident as $shown:literal {
        $($(#[doc = $note:literal])* $(#[serde($($serde:tt)*)])? pub $field:ident: $type:ty,)*
    }) => {
        $(#[doc = $about])*
        #[derive(Debug, serde::Serialize)]
        pub struct $name {
            $($(#[doc = $note])* $(#[serde($($serde)*)])? pub $field: $type,)*
        }

        impl $crate::shape::Shape for $name {
            fn schema(schemas: &mut $crate::shape::Schemas) -> $crate::Value {
                schemas.object($shown, concat!("" $(, $about)*), |object| {
                    $($crate::shape_field!(object, $($($serde)*)?, $type, stringify!($field), concat!("" $(, $note)*));)*
                })
            }
        }
    };
}

/// One field of [`shape!`](crate::shape!).
#[doc(hidden)]
#[macro_export]
macro_rules! shape_field {
    ($object:ident, flatten, $type:ty, $name:expr, $note:expr) => {
        $object.flatten::<$type>()
    };
    ($object:ident, , $type:ty, $name:expr, $note:expr) => {
        $object.required::<$type>($name, $note)
    };
}

macro_rules! plain {
    ($schema:tt: $($type:ty),*) => {
        $(impl Shape for $type {
            fn schema(_: &mut Schemas) -> Value {
                json!($schema)
            }
        })*
    };
}

plain!({ "type": "string" }: String, &'static str);
plain!({ "type": "boolean" }: bool);
plain!({ "type": "integer", "minimum": 0 }: u8, u16, u32, u64);
plain!({ "type": "integer" }: i64);
plain!({ "type": "number" }: f32, f64);
plain!({}: Box<RawValue>, Value);

impl<T: Shape> Shape for Vec<T> {
    fn schema(schemas: &mut Schemas) -> Value {
        json!({ "type": "array", "items": T::schema(schemas) })
    }
}

impl<T: Shape> Shape for Option<T> {
    fn schema(schemas: &mut Schemas) -> Value {
        or_null(T::schema(schemas))
    }
}

/// The schema with `null` allowed too.
pub fn or_null(mut schema: Value) -> Value {
    match schema.get("type").cloned() {
        Some(Value::Array(types)) if types.contains(&json!("null")) => return schema,
        Some(Value::Array(mut types)) => {
            types.push(json!("null"));
            schema["type"] = json!(types);
        }
        Some(Value::String(one)) => schema["type"] = json!([one, "null"]),
        _ if ["$ref", "anyOf", "oneOf"].iter().any(|key| schema.get(key).is_some()) => {
            return json!({ "anyOf": [schema, { "type": "null" }] });
        }
        _ => return schema,
    }
    // A list of the values allowed has to have it as well.
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
    schema
}

/// The schema of a duration: `5m`, `1h30m`, `PT0.5S`.
pub fn span() -> Value {
    let short = "([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?";
    let pattern = format!("^(?=.)({short}|[0-9]+(\\.[0-9]+)?(h|m|s|ms)|P.+)$");
    json!({ "type": "string", "pattern": pattern, "examples": ["500ms", "5m", "1h30m", "PT0.5S"] })
}
