//! One text as each database wants it.

use super::{Kind, Piece, SCHEMA, pieces};

#[derive(Clone, Copy, Debug)]
pub enum Dialect<'s> {
    /// `windlass.x` is `windlass_x`, `$1` is `?1`: there `$1` would be a name, numbered by where it first stands.
    Sqlite,
    /// `windlass.x` is `x` of the schema that the store was opened with.
    Postgres { schema: &'s str },
}

/// Only names change: literals, quoted names and comments stay as they are.
pub fn render(text: &str, dialect: Dialect<'_>) -> String {
    rendered(&pieces(text), dialect)
}

pub(super) fn rendered(pieces: &[Piece<'_>], dialect: Dialect<'_>) -> String {
    let mut out = String::new();
    // The words of the statement so far.
    let mut words: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(piece) = pieces.get(at) {
        at += 1;
        match (piece.kind, dialect) {
            (Kind::Word, dialect) if is_ours(pieces, at - 1) => {
                match dialect {
                    Dialect::Sqlite => out.push_str("windlass_"),
                    // An index lies where its table lies, and Postgres takes no schema in its name.
                    Dialect::Postgres { .. } if names_index(&words) => {}
                    Dialect::Postgres { schema } => {
                        out.push_str(schema);
                        out.push('.');
                    }
                }
                at += 1;
            }
            (Kind::Value(number), Dialect::Sqlite) => out.push_str(&format!("?{number}")),
            _ => out.push_str(piece.text),
        }
        match piece.kind {
            Kind::Word => words.push(piece.text),
            Kind::Other if piece.text == ";" => words.clear(),
            _ => {}
        }
    }
    out
}

/// `windlass.` before a name, and not behind a dot of its own.
fn is_ours(pieces: &[Piece<'_>], at: usize) -> bool {
    let behind_dot = at > 0 && pieces[at - 1].is(".");
    let named =
        matches!(pieces.get(at + 1..at + 3), Some([dot, name]) if dot.is(".") && name.kind == Kind::Word);
    pieces[at].is(SCHEMA) && named && !behind_dot
}

/// What comes next in `create [unique] index [concurrently] [if not exists]`.
fn names_index(words: &[&str]) -> bool {
    const LEADING: [&str; 7] = ["create", "unique", "index", "concurrently", "if", "not", "exists"];
    let is = |word: &str, one: &str| word.eq_ignore_ascii_case(one);
    words.iter().any(|word| is(word, "index"))
        && words.iter().all(|word| LEADING.iter().any(|one| is(word, one)))
        && words.first().is_some_and(|word| is(word, "create"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, sqlite: &str, postgres: &str) {
        assert_eq!(render(text, Dialect::Sqlite), sqlite);
        assert_eq!(render(text, Dialect::Postgres { schema: "own" }), postgres);
    }

    #[test]
    fn names_change_and_nothing_else() {
        check(
            "select g.x, Windlass.guest_a.y from windlass.guest_a g where t = $1 and u > $12",
            "select g.x, windlass_guest_a.y from windlass_guest_a g where t = ?1 and u > ?12",
            "select g.x, own.guest_a.y from own.guest_a g where t = $1 and u > $12",
        );
        for left in [
            "select 'windlass.guest_a', 'it''s windlass.x'",
            r#"select "windlass.guest_a" from "windlass"."x""#,
            "select 1 -- windlass.guest_a\n, /* windlass.b */ 2",
            "select mywindlass.x, a.windlass.x, windlass.*, windlass",
            "select $$windlass.x $1$$",
            r"select E'\'windlass.x $1'",
        ] {
            check(left, left, left);
        }
    }

    #[test]
    fn an_index_has_no_schema_of_its_own_on_postgres() {
        check(
            "create unique index if not exists windlass.guest_at on windlass.guest_a (at); drop index windlass.guest_at",
            "create unique index if not exists windlass_guest_at on windlass_guest_a (at); drop index windlass_guest_at",
            "create unique index if not exists guest_at on own.guest_a (at); drop index own.guest_at",
        );
    }
}
