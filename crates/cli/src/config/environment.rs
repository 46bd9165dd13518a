//! The process environment, read once.
//!
//! Contains the only call to `std::env::vars_os`. Does not interpret values.

use std::ffi::OsString;

pub(crate) struct Environment {
    variables: Vec<(String, OsString)>,
}

impl Environment {
    pub(crate) fn capture() -> Environment {
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        let mut variables: Vec<(String, OsString)> = std::env::vars_os().filter_map(named).collect();
        variables.sort();
        Environment { variables }
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        Environment { variables }
    }

    /// A set and non-empty variable.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let (_, value) = self.variables.iter().find(|(known, _)| known == name)?;
        value.to_str().filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// `WINDLASS_SECTION__KEY` in any case. A name without `__`, such as `WINDLASS_SERVER`, is not configuration.
    pub(crate) fn configuration(&self) -> impl Iterator<Item = (&str, String, &OsString)> {
        self.variables.iter().filter_map(|(name, value)| {
            let lower = name.to_lowercase();
            let path = lower.strip_prefix("windlass_").filter(|path| path.contains("__"))?;
            Some((name.as_str(), path.to_owned(), value))
        })
    }
}
