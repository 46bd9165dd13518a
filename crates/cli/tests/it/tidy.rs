//! Rules about the repository that no compiler checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const LINES: usize = 800;
const WIDTH: usize = 120;
/// Names that say nothing about the content of a file or the purpose of a type.
const BANNED: [&str; 4] = ["utils", "helpers", "common", "manager"];

/// Which crate may use which other crate of ours. ARCHITECTURE.md has the same lines.
const ARROWS: [(&str, &str); 10] = [
    ("core", "(none)"),
    ("store-sqlite", "core"),
    ("store-postgres", "core"),
    ("engine", "core"),
    ("pack", "engine, core"),
    ("index", "pack, engine, core"),
    ("http", "pack, engine, core"),
    ("windlass", "index, pack, engine, store-sqlite, store-postgres, core"),
    ("cli", "windlass, http, index, pack, engine, store-sqlite, store-postgres, core"),
    ("testkit", "core"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All files that are committed or about to be.
fn tracked() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8(listed.stdout).unwrap();
    text.lines().filter(|path| root().join(path).is_file()).map(str::to_owned).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn ends(path: &str, endings: &[&str]) -> bool {
    Path::new(path).extension().is_some_and(|end| endings.iter().any(|one| end == *one))
}

/// Golden files and third-party files are exempt.
fn ours(path: &str) -> bool {
    !path.ends_with("schema.sql") && !path.contains("/golden/") && !path.starts_with("models/")
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = tracked()
        .into_iter()
        .filter(|path| ends(path, &["rs", "sql", "js", "py"]) && ours(path))
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "longer than {LINES} lines; split on a noun:\n{}", long.join("\n"));
}

#[test]
fn names_are_descriptive() {
    let mut found: Vec<String> = tracked()
        .into_iter()
        .filter(|path| {
            let parts = path.split(['/', '.']).map(str::to_lowercase);
            parts.into_iter().any(|part| BANNED.contains(&part.as_str()))
        })
        .collect();
    for path in tracked().into_iter().filter(|path| ends(path, &["rs"])) {
        let declared = |line: &str, name: &str| {
            let line = line.trim_start().to_lowercase();
            ["mod ", "pub mod ", "pub struct ", "struct ", "pub(crate) struct ", "pub enum ", "enum "]
                .iter()
                .filter_map(|start| line.strip_prefix(start))
                .any(|rest| {
                    rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                        .next()
                        .is_some_and(|word| word.ends_with(name))
                })
        };
        let text = read(&path);
        let lines = text.lines().enumerate();
        let banned = lines.filter(|(_, line)| BANNED.iter().any(|name| declared(line, name)));
        found.extend(banned.map(|(n, line)| format!("{path}:{}: {}", n + 1, line.trim())));
    }
    assert!(found.is_empty(), "a name should say what is there:\n{}", found.join("\n"));
}

#[test]
fn crates_depend_on_each_other_in_one_direction() {
    for (name, arrows) in ARROWS {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let used = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let used = used.split("[dependencies]").nth(1).unwrap_or_default();
        let allowed: BTreeSet<&str> = arrows.split(", ").collect();
        for line in used.lines() {
            let crate_name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let short = match crate_name.strip_prefix("windlass-") {
                Some(short) => short,
                None if crate_name == "windlass" => "windlass",
                None => continue,
            };
            assert!(allowed.contains(short), "{name} must not use {short}; it may use: {arrows}");
        }
        let shown = if name.starts_with("store-") { "store-*" } else { name };
        let listed = read("ARCHITECTURE.md").lines().any(|line| match line.split_once('→') {
            Some((from, to)) => from.trim() == shown && to.trim() == arrows,
            None => false,
        });
        assert!(listed, "ARCHITECTURE.md lacks {shown} → {arrows}");
    }
}

/// The columns of each table, from the text of the schema.
fn columns(schema: &str) -> BTreeMap<String, Vec<String>> {
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut table = None;
    for line in schema.lines() {
        if let Some(rest) = line.strip_prefix("create table ") {
            table = rest.split([' ', '(']).next().map(str::to_owned);
        } else if line.starts_with(')') {
            table = None;
        } else if let (Some(table), Some(column)) = (&table, line.strip_prefix("    ")) {
            let name = column.split(' ').next().unwrap_or_default();
            let is_column = name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
                && !["primary", "check", "constraint", "unique", "references"].contains(&name);
            if is_column && !name.is_empty() {
                tables.entry(table.clone()).or_default().push(name.to_owned());
            }
        }
    }
    tables
}

/// A column that only the schema mentions is useless.
#[test]
fn every_column_is_used() {
    for store in ["store-sqlite", "store-postgres"] {
        let folder = format!("crates/{store}/src/");
        let schema = read(&format!("{folder}schema/0001_schema.up.sql"));
        let views = schema.split("Views for people").nth(1).unwrap_or_default().to_owned();
        let source: String = tracked()
            .into_iter()
            .filter(|path| path.starts_with(&folder) && !path.contains("/schema/"))
            .map(|path| read(&path))
            .chain([views, read("crates/core/src/limit/table.rs")])
            .collect();
        let words: BTreeSet<&str> = source.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for (table, columns) in columns(&schema) {
            for column in columns {
                assert!(words.contains(column.as_str()), "{store}: nothing uses {table}.{column}");
            }
        }
    }
}

/// A key of the configuration that no code names changes nothing.
#[test]
fn every_configuration_key_is_read() {
    let source: String = tracked()
        .into_iter()
        .filter(|path| path.contains("/src/") && ends(path, &["rs"]) && !path.ends_with("config/keys.rs"))
        .map(|path| read(&path))
        .collect();
    let words: BTreeSet<&str> = source.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let page = read("docs/config.md");
    // The keys of other systems follow.
    let page = page.split("## Keys under other names").next().unwrap_or_default();
    let keys = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let unread: Vec<&str> =
        keys.filter(|key| key.rsplit('.').next().is_some_and(|name| !words.contains(name))).collect();
    assert!(unread.is_empty(), "nothing reads {}", unread.join(", "));
}

/// rustfmt wraps code but leaves comments, and nothing wraps SQL.
#[test]
fn no_comment_and_no_statement_is_too_wide() {
    let mut wide = Vec::new();
    for path in tracked().into_iter().filter(|path| ends(path, &["rs", "sql"]) && ours(path)) {
        let sql = ends(&path, &["sql"]);
        for (n, line) in read(&path).lines().enumerate() {
            let counts = sql || line.trim_start().starts_with("//");
            if counts && line.chars().count() > WIDTH {
                wide.push(format!("{path}:{}", n + 1));
            }
        }
    }
    assert!(wide.is_empty(), "wider than {WIDTH} columns:\n{}", wide.join("\n"));
}
