//! Checks the layering of this crate in its own sources.

use std::path::Path;

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Routes call the client, which does validation and audit.
#[test]
fn no_route_calls_the_store() {
    let mut found = Vec::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
    assert!(found.len() > 30, "the sources are there");
    let mut broken = Vec::new();
    for (path, text) in found {
        for (n, line) in text.lines().enumerate().filter(|(_, line)| line.contains(".store()")) {
            broken.push(format!("{path}:{}: {}", n + 1, line.trim()));
        }
    }
    assert!(broken.is_empty(), "use a method of Client instead:\n{}", broken.join("\n"));
}
