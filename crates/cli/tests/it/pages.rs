//! The documentation is consistent: links resolve, each page is linked, and invariants name tests that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README and its neighbours, and the pages in `docs`.
fn pages() -> Vec<PathBuf> {
    let folders = [root(), root().join("docs")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "md"));
    files.sort();
    files
}

/// The targets of `](…)`, without other servers.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// A heading's anchor: lower case, letters and digits, hyphens for spaces.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        words.chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_resolves_and_every_page_is_linked() {
    let mut linked = BTreeSet::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').map_or((link, None), |(file, at)| (file, Some(at)));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let target = target.canonicalize().unwrap_or_else(|_| panic!("{}: {link}", page.display()));
            if let Some(anchor) = anchor {
                let headings = anchors(&std::fs::read_to_string(&target).unwrap());
                assert!(headings.contains(anchor), "{}: {link} names none of {headings:?}", page.display());
            }
            if target != page {
                linked.insert(target);
            }
        }
    }
    for page in pages().iter().filter(|page| page.starts_with(root().join("docs"))) {
        assert!(linked.contains(page), "no page links to {}", page.display());
    }
}

/// Paths ending in `.rs` in the list of invariants. A bare file name is in the folder of the previous path.
#[test]
fn every_invariant_names_tests_that_exist() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = text.split("## Invariants").nth(1).unwrap().split("\n## ").next().unwrap();
    let list = &section[section.find("\n1. ").unwrap()..];
    let numbered = |n: usize| list.find(&format!("\n{n}. "));
    let mut count = 0;
    for n in (1..).take_while(|n| numbered(*n).is_some()) {
        let item = &list[numbered(n).unwrap()..numbered(n + 1).unwrap_or(list.len())];
        let files: Vec<&str> =
            item.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs")).collect();
        assert!(!files.is_empty(), "no test is named: {item}");
        let mut folder = PathBuf::new();
        for file in files {
            let path = match file.strip_prefix("conformance/") {
                Some(case) => Path::new("testkit/src/conformance").join(case),
                None if file.contains('/') => PathBuf::from(file),
                None => folder.join(file),
            };
            folder = path.parent().unwrap().to_owned();
            assert!(exists(&root().join("crates").join(&path)), "{n}: there is no {}", path.display());
        }
        count = n;
    }
    assert!(count >= 20, "{count}");
}

/// `lane*.rs` matches any file with that prefix.
fn exists(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let Some((start, end)) = name.split_once('*') else { return path.exists() };
    let mut files =
        std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    files.any(|file| file.to_str().is_some_and(|file| file.starts_with(start) && file.ends_with(end)))
}
