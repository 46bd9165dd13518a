//! Renders one SQL text for each database.

use super::{Kind, Piece, SCHEMA, pieces};

#[derive(Clone, Copy, Debug)]
pub enum Dialect<'s> {
    /// `windlass.x` becomes `windlass_x` and `$1` becomes `?1`. SQLite treats `$1` as a name, numbered by first
    /// occurrence.
    Sqlite,
    /// `windlass.x` becomes `x` in the store's schema.
    Postgres { schema: &'s str },
}

/// Changes only names and parameters; literals, quoted names and comments stay.
pub fn render(text: &str, dialect: Dialect<'_>) -> String {
    rendered(&pieces(text), dialect)
}

pub(super) fn rendered(pieces: &[Piece<'_>], dialect: Dialect<'_>) -> String {
    let mut out = String::new();
    // Words of the current statement so far.
    let mut words: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(piece) = pieces.get(at) {
        at += 1;
        match (piece.kind, dialect) {
            (Kind::Word, dialect) if is_ours(pieces, at - 1) => {
                match dialect {
                    Dialect::Sqlite => out.push_str("windlass_"),
                    // An index belongs to its table's schema, and Postgres allows no schema in its name.
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

/// `windlass.` before a name, not itself after a dot.
fn is_ours(pieces: &[Piece<'_>], at: usize) -> bool {
    let behind_dot = at > 0 && pieces[at - 1].is(".");
    let named =
        matches!(pieces.get(at + 1..at + 3), Some([dot, name]) if dot.is(".") && name.kind == Kind::Word);
    pieces[at].is(SCHEMA) && named && !behind_dot
}

/// Whether the next word is the name in `create [unique] index [concurrently] [if not exists]`.
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
