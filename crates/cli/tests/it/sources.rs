//! Verbs use the routes: none goes past them to a store for data.

use std::path::{Path, PathBuf};

/// Verbs that work on the database itself, and the code that connects to the routes.
const DIRECT: [&str; 15] = [
    "api/",
    "compose.rs",
    "compose/",
    // Parts of this binary, not verbs.
    "parts/",
    "commands/mod.rs",
    "commands/backup/mod.rs",
    "commands/backup/restore.rs",
    "commands/bench/",
    "commands/demo/",
    // Checks whether there is a schema.
    "commands/doctor.rs",
    "commands/migrate.rs",
    "commands/serve.rs",
    "commands/serve/",
    "config/",
    "failure.rs",
];

/// Calls that need a store.
const STORE: [&str; 8] = [
    ".store()",
    ".client()",
    ".writer()",
    ".existing()",
    "dyn Store",
    "compose::open",
    "windlass_store_",
    "windlass_engine::Client",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn no_verb_reads_data_from_a_store() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut past = Vec::new();
    let mut looked = 0;
    for path in sources(&folder) {
        let name = path.strip_prefix(&folder).unwrap().display().to_string();
        if DIRECT.iter().any(|direct| name == *direct || direct.ends_with('/') && name.starts_with(direct)) {
            continue;
        }
        looked += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        for (n, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in STORE.iter().filter(|word| code.contains(**word)) {
                past.push(format!("src/{name}:{}: `{word}`: {}", n + 1, line.trim()));
            }
        }
    }
    assert!(looked > 40, "only {looked} files were looked at");
    assert!(past.is_empty(), "these go past the routes:\n{}", past.join("\n"));
    for direct in DIRECT {
        assert!(folder.join(direct).exists(), "{direct} is not there any more");
    }
}
