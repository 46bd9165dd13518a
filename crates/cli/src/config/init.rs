//! The file written by `config init`: every key with its default, all commented out.

use windlass_pack::settings::{Form, Section, Setting};

use super::keys::{BUDGET, DATABASE, KIND, Keys, QUEUE};

pub(crate) fn template(keys: &Keys) -> String {
    let mut text = String::from(
        "# Windlass configuration. Every line that is commented out shows the default.\n\
         # Durations: 500ms, 90s, 5m, 1h30m, 7d, or PT0.5S.\n\
         # Each key can also be set by a variable: WINDLASS_SERVER__LEASE=30s; with _FILE at the end the variable\n\
         # names a file that holds the value. Flags win over variables, variables over this file.\n",
    );
    for section in keys.sections() {
        text.push_str(&format!("\n{}{}\n", about(section), header(section)));
        for key in keys.in_section(section) {
            text.push_str(&format!("# {}\n# {} = {}\n", key.about, key.name, example(key)));
        }
    }
    text
}

fn about(section: Section) -> String {
    if section.about.is_empty() { String::new() } else { format!("# {}\n", section.about) }
}

/// A section with a name would add something, so it stays commented out.
fn header(section: Section) -> String {
    match section.named {
        Some(_) => format!("# [{}.{}]", section.word, section.example),
        None => format!("[{}]", section.word),
    }
}

/// A valid value once its line is uncommented.
fn example(key: &Setting) -> String {
    let text = match (key.section, key.name) {
        (DATABASE, "url") => "sqlite://./windlass-data/windlass.db",
        (QUEUE, "priority") => "0",
        (QUEUE | KIND, "resource") => "browser",
        (QUEUE, "cadence") => "5s",
        (QUEUE, "sla") => "30s",
        (QUEUE, "owner") => "ops on call",
        (QUEUE, "colour") => "salmon",
        (KIND, "queue") => "DEFAULT",
        (KIND, "priority") => "5",
        (KIND, "description") => "mails a receipt",
        (BUDGET, "limit") => "500.00",
        (BUDGET, "tokens") => "50000000",
        _ => key.example.unwrap_or(key.default),
    };
    match key.form {
        Form::Flag | Form::Count { .. } | Form::Money => text.to_owned(),
        _ => format!("\"{text}\""),
    }
}
