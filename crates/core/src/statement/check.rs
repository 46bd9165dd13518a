//! Validates a pack's statement: a single one, with a value for each parameter, of the requested kind.

use crate::store::SqlValue;
use crate::{StoreError, Time};

use super::render::rendered;
use super::{Dialect, Kind, Piece, pieces};

const READS: [&str; 2] = ["select", "values"];
const WRITES: [&str; 3] = ["insert", "update", "delete"];

/// How a statement is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// To change rows; returns how many.
    Run,
    /// For the rows it returns; it may also change some.
    Rows,
    /// Read-only.
    Read,
}

/// Validates the text and renders it for the database. The checks are the same for both, so that a pack tested on one
/// also runs on the other.
pub fn prepared(
    text: &str,
    values: &[SqlValue],
    asks: Asks,
    dialect: Dialect<'_>,
) -> Result<String, StoreError> {
    let pieces = pieces(text);
    one_statement(&pieces)?;
    places(&pieces, values.len())?;
    values.iter().enumerate().try_for_each(|(at, value)| keepable(at + 1, value))?;
    let verb = verb(&pieces);
    let one_of = |verbs: &[&str]| verb.is_some_and(|verb| verbs.iter().any(|one| verb.is(one)));
    let answers = one_of(&READS);
    if !answers && !one_of(&WRITES) {
        let words = verb.map_or("", |verb| verb.text);
        let why = format!("`{words}` neither reads rows nor writes them");
        return Err(wrong(
            why,
            "tables come with a pack's migrations, and a transaction is ended by the code that opened it",
        ));
    }
    match asks {
        Asks::Run if answers => Err(wrong(
            "`run` returns the number of changed rows, and this statement changes none",
            "use `rows`",
        )),
        Asks::Read if !answers => Err(only_reads()),
        _ => Ok(rendered(&pieces, dialect)),
    }
}

/// The error for a write through `read`.
pub fn only_reads() -> StoreError {
    wrong("it may write, and `read` is for reads", "use a transaction: `begin`, then `sql`")
}

fn wrong(why: impl Into<String>, remedy: &'static str) -> StoreError {
    StoreError::WrongStatement { why: why.into(), remedy }
}

fn one_statement(pieces: &[Piece<'_>]) -> Result<(), StoreError> {
    let mut words = pieces.iter().filter(|piece| piece.kind != Kind::Space);
    let mut first = words.by_ref().skip_while(|piece| piece.is(";")).peekable();
    if first.peek().is_none() {
        return Err(wrong("there is nothing in it", "write a statement"));
    }
    match first.skip_while(|piece| !piece.is(";")).find(|piece| !piece.is(";")) {
        None => Ok(()),
        Some(_) => Err(wrong("it is more than one statement", "run them one by one")),
    }
}

/// Checks that the parameters are `$1` to the number of values, and that each is used.
fn places(pieces: &[Piece<'_>], values: usize) -> Result<(), StoreError> {
    let mut used = vec![false; values];
    for piece in pieces {
        let Kind::Value(number) = piece.kind else { continue };
        match number.checked_sub(1).and_then(|at| used.get_mut(at)) {
            Some(used) => *used = true,
            None => {
                let why = format!("it uses {} and got {values} values", piece.text);
                return Err(wrong(why, "give a value for each parameter"));
            }
        }
    }
    match used.iter().position(|used| !used) {
        None => Ok(()),
        Some(at) => {
            Err(wrong(format!("it does not use ${}", at + 1), "give no more values than it has parameters"))
        }
    }
}

/// The earliest time Postgres can store.
const EARLIEST: Time = Time(-210_866_803_200_000_000);

/// SQLite cannot store NaN; Postgres cannot store a NUL in text or a time before 4714 BC.
fn keepable(number: usize, value: &SqlValue) -> Result<(), StoreError> {
    match value {
        SqlValue::Real(real) if real.is_nan() => {
            Err(wrong(format!("${number} is not a number, which SQLite cannot keep"), "write null"))
        }
        SqlValue::Text(text) if text.contains('\0') => Err(wrong(
            format!("${number} is text with a NUL in it, which Postgres cannot keep"),
            "take it out, or use bytes",
        )),
        SqlValue::Time(time) if *time < EARLIEST => Err(wrong(
            format!("${number} is a time before 4714 BC, which Postgres cannot keep"),
            "write null",
        )),
        _ => Ok(()),
    }
}

/// The keyword that says what the statement does: the first, or the one after its `with` queries.
fn verb<'p, 't>(pieces: &'p [Piece<'t>]) -> Option<&'p Piece<'t>> {
    let mut words = pieces.iter().filter(|piece| piece.kind != Kind::Space && !piece.is(";"));
    let first = words.next()?;
    if !first.is("with") {
        return Some(first);
    }
    let mut depth = 0;
    words.find(|piece| {
        depth += i32::from(piece.is("(")) - i32::from(piece.is(")"));
        depth == 0 && READS.iter().chain(&WRITES).any(|verb| piece.is(verb))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str, values: &[SqlValue], asks: Asks) -> Option<String> {
        match prepared(text, values, asks, Dialect::Sqlite) {
            Ok(_) => None,
            Err(StoreError::WrongStatement { why, remedy }) => Some(format!("{why}; {remedy}")),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_statement_and_no_more() {
        for good in ["delete from a", "delete from a;", ";delete from a where b = ';' ; -- ;x\n /* ; */ ;"] {
            assert_eq!(why(good, &[], Asks::Run), None, "{good}");
        }
        for bad in ["delete from a; drop table b", "delete from a;;x"] {
            assert!(why(bad, &[], Asks::Run).unwrap().contains("more than one"), "{bad}");
        }
        for empty in ["", " ; -- x\n", "/* */"] {
            assert!(why(empty, &[], Asks::Run).unwrap().contains("nothing in it"), "{empty}");
        }
    }

    #[test]
    fn each_parameter_has_a_value_and_each_value_a_parameter() {
        let one = [SqlValue::Int(1)];
        assert_eq!(why("delete from a where b = $1 or c = $1", &one, Asks::Run), None);
        assert!(why("delete from a where b = $2", &one, Asks::Run).unwrap().contains("$2 and got 1"));
        assert!(why("delete from a where b = $0", &one, Asks::Run).unwrap().contains("$0"));
        assert!(why("delete from a where b = '$1'", &one, Asks::Run).unwrap().contains("not use $1"));
    }

    #[test]
    fn values_that_one_database_cannot_store_are_refused_on_both() {
        let refused = |value| why("delete from a where b = $1", &[value], Asks::Run);
        assert!(refused(SqlValue::Real(f64::NAN)).unwrap().contains("$1 is not a number"));
        assert!(refused(SqlValue::Text("a\0".to_owned())).unwrap().contains("NUL"));
        assert!(refused(SqlValue::Time(Time(i64::MIN))).unwrap().contains("4714"));
        assert_eq!(refused(SqlValue::Time(EARLIEST)), None);
        assert_eq!(refused(SqlValue::Real(f64::INFINITY)), None);
        assert_eq!(refused(SqlValue::Bytes(vec![0])), None);
    }

    #[test]
    fn reads_cannot_write_and_runs_must_write() {
        let reads =
            ["select 1", "VALUES (1)", "with a as (delete from b) select 1", "with a as (select 1) select 2"];
        for text in reads {
            assert_eq!(why(text, &[], Asks::Read), None, "{text}");
            assert!(why(text, &[], Asks::Run).unwrap().contains("use `rows`"), "{text}");
        }
        let writes = ["insert into a values (1)", "with a as (select 1) update b set c = (select 1)"];
        for text in writes {
            assert_eq!(why(text, &[], Asks::Run), None, "{text}");
            assert!(why(text, &[], Asks::Read).unwrap().contains("`read` is for reads"), "{text}");
            assert_eq!(why(text, &[], Asks::Rows), None, "{text}");
        }
    }

    /// A statement must not end a transaction that others still use.
    #[test]
    fn only_rows_are_read_and_written() {
        for text in
            ["commit", "pragma query_only = off", "create table windlass.a (b)", "(select 1)", "set x = 1"]
        {
            for asks in [Asks::Run, Asks::Rows, Asks::Read] {
                assert!(why(text, &[], asks).unwrap().contains("neither reads rows nor writes"), "{text}");
            }
        }
    }
}
