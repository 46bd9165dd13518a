//! Parts are isolated: nothing outside a part's folder names it.

use std::path::{Path, PathBuf};

/// The names of a part, and where they may occur.
struct Part {
    words: &'static [&'static str],
    home: &'static [&'static str],
}

/// Where parts are composed, or programs are built on them.
const ROOTS: &[&str] = &[
    "crates/cli/src/compose.rs",
    // The library's composition root and its re-exports.
    "crates/windlass/src/builder.rs",
    "crates/windlass/src/lib.rs",
    // Programs built on the index.
    "crates/cli/src/commands/demo",
    "crates/cli/src/commands/bench",
    "crates/testkit",
];

const PARTS: &[Part] = &[
    Part {
        words: &[
            "windlass_index",
            "IndexPack",
            "EntityError",
            "/v1/entities",
            "/v1/search",
            "/v1/types",
            "pending_entities",
            "indexing_queue",
            "INDEX_ASYNC",
            "INDEX_BATCH",
        ],
        home: &[
            "crates/index",
            // Its rules, its part of the store contract, and its tables.
            "crates/core/src/entity",
            "crates/core/src/store/entities.rs",
            "crates/store-sqlite/src/entity",
            "crates/store-sqlite/src/schema",
            "crates/store-postgres/src/entity",
            "crates/store-postgres/src/schema",
            // View names that no part may use.
            "crates/core/src/pack/check.rs",
        ],
    },
    Part { words: &["Tryout", "\"ABORT\"", "\"SLEEP\""], home: &["crates/windlass/src/parts"] },
    Part { words: &["BackupPart", "\"BACKUP\""], home: &["crates/cli/src/parts/backup"] },
];

#[test]
fn nothing_outside_a_part_names_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for file in sources(&root.join("crates")) {
        let shown = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().replace("../../", "");
        let inside = |places: &[&str]| places.iter().any(|place| shown.starts_with(place));
        if inside(ROOTS) || !shown.contains("/src/") || shown.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for part in PARTS.iter().filter(|part| !inside(part.home)) {
            for (number, line) in code.lines().enumerate() {
                if let Some(word) = part.words.iter().find(|word| line.contains(**word)) {
                    found.push(format!("{shown}:{}: {word}", number + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "named outside their folders:\n{}", found.join("\n"));
}

/// All source files of the product: Rust, scripts and pages.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let known =
            path.extension().is_some_and(|end| ["rs", "js", "html"].iter().any(|known| end == *known));
        if path.is_dir() {
            files.extend(sources(&path));
        } else if known {
            files.push(path);
        }
    }
    files.sort();
    files
}
