//! Budgets in the configuration.

use windlass_core::BudgetSpec;
use windlass_core::budget::Threshold;

use windlass_pack::settings::SettingValue as Value;

use super::keys::BUDGET;
use super::raw::{Origin, RawConfig};

/// All configured budgets; problems are added to `raw`.
pub(super) fn resolve(raw: &mut RawConfig) -> Vec<BudgetSpec> {
    let mut budgets = Vec::new();
    for name in raw.names(BUDGET) {
        let configured = |key| raw.get(BUDGET, Some(&name), key).cloned();
        let mut spec = BudgetSpec::named(&name);
        if let Some((Value::Money(limit), _)) = configured("limit") {
            spec.limit = Some(limit);
        }
        if let Some((Value::Count(tokens), _)) = configured("tokens") {
            spec.tokens = Some(tokens);
        }
        if let Some((Value::Text(currency), _)) = configured("currency") {
            spec.currency = currency;
        }
        let mut problems: Vec<(Origin, String)> = Vec::new();
        if let Some((Value::Text(text), origin)) = configured("thresholds") {
            match thresholds(&text) {
                Ok(thresholds) => spec.thresholds = thresholds,
                Err(rule) => problems.push((origin, format!("budgets.{name}.thresholds: {rule}"))),
            }
        }
        let place = |field: &str| {
            let key = raw.keys.find(BUDGET, field).and_then(|key| configured(key.name));
            let any = || raw.keys.in_section(BUDGET).find_map(|key| configured(key.name));
            key.or_else(any).map_or(Origin::Default, |(_, origin)| origin)
        };
        for problem in spec.check().err().map(|invalid| invalid.problems).unwrap_or_default() {
            let text = format!("budgets.{name}.{}: {}", problem.field, problem.rule);
            problems.push((place(&problem.field), text));
        }
        for (origin, text) in problems {
            raw.problem(origin, text);
        }
        budgets.push(spec);
    }
    budgets
}

/// `75 info, 100 critical`: percentages with their levels.
fn thresholds(text: &str) -> Result<Vec<Threshold>, String> {
    let threshold = |part: &str| {
        let form = || format!("`{}` must be a percentage and a level, such as 75 info", part.trim());
        let (percent, level) = part.trim().split_once(' ').ok_or_else(form)?;
        let percent = percent.trim_end_matches('%').parse().map_err(|_| form())?;
        let level = level.parse().map_err(|error: windlass_core::budget::UnknownLevel| error.to_string())?;
        Ok(Threshold { percent, level })
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(threshold).collect()
}

#[cfg(test)]
mod tests {
    use windlass_core::budget::default_thresholds;

    use super::*;

    #[test]
    fn thresholds_are_percentages_with_levels() {
        let default = crate::config::Keys::default().find(BUDGET, "thresholds").unwrap().default;
        assert_eq!(thresholds(default), Ok(default_thresholds()));
        assert_eq!(thresholds("75% INFO").unwrap()[0].percent, 75);
        assert_eq!(thresholds(""), Ok(Vec::new()));
        assert!(thresholds("info").unwrap_err().contains("a percentage and a level"));
        assert!(thresholds("75 loud").unwrap_err().contains("known are INFO, WARNING, CRITICAL"));
    }
}
