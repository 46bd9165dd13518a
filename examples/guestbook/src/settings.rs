//! `[packs.guestbook]`.

use windlass::pack::settings::{Form, Section, Setting, SettingValue, Settings};

pub(crate) const SECTION: Section = Section::plain("packs.guestbook")
    .about("The guest book: how long a message may be, and how guests are thanked.");

pub(crate) fn declared() -> Vec<Setting> {
    let longest = Form::Count { min: 1, max: 10_000 };
    vec![
        Setting::new(SECTION, "longest", longest, "500", "Most characters of a message"),
        Setting::new(SECTION, "greeting", Form::Text, "Thank you, {name}!", "What each guest is told")
            .checked(names_the_guest),
    ]
}

/// A custom check, which `Form` cannot express.
fn names_the_guest(value: &SettingValue) -> Result<(), String> {
    match value.to_string().contains("{name}") {
        true => Ok(()),
        false => Err("must contain {name}, where the guest's name goes".to_owned()),
    }
}

pub(crate) fn longest(settings: &Settings) -> usize {
    settings.count(SECTION, "longest").and_then(|count| usize::try_from(count).ok()).unwrap_or(500)
}

pub(crate) fn greeting(settings: &Settings) -> String {
    settings.text(SECTION, "greeting").unwrap_or_default()
}
