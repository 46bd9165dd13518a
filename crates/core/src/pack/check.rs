//! Validates a pack's migrations. Reports all problems before anything runs.

use crate::backup::{TABLES, TABLES_LEFT_OUT};
use crate::entity;
use crate::input::Invalid;
use crate::statement::{Kind, Piece, SCHEMA, pieces};

use super::{PackStep, SqlText};

/// Names in the schema that are not backup tables: views, sequences and others.
const NAMES: &[&str] = &[
    "ai_usage_tracking",
    "attempt_history",
    "delayed_jobs",
    "embedding_queue",
    "ended_jobs",
    "indexing_queue",
    "job_view",
    "line_seq",
    "open_jobs",
    "token_seq",
    "worker_seq",
];
const LONGEST: usize = 24;

/// Versions count from 1 without gaps. Nothing outside `windlass.<pack>_` is created or changed. If the databases
/// differ, a reason is given.
pub fn check_steps(pack: &str, steps: &[PackStep]) -> Result<(), Invalid> {
    let mut invalid = Invalid::default();
    if !steps.is_empty() {
        check_name(pack, &mut invalid);
    }
    for (at, step) in steps.iter().enumerate() {
        let field = format!("pack {pack}, step {}", step.version);
        let wanted = at as i64 + 1;
        if step.version != wanted {
            invalid.add(&field, format!("must be {wanted}: steps are numbered from 1 without a gap"));
        }
        if step.name.is_empty() || steps[..at].iter().any(|other| other.name == step.name) {
            invalid.add(&field, format!("its name `{}` must be unique", step.name));
        }
        for (way, text) in [("up", &step.up), ("down", &step.down)] {
            check_text(pack, &format!("{field}, {way}"), text, &mut invalid);
        }
    }
    invalid.into_result()
}

/// No name of a pack may start like one of another pack or of the schema.
fn check_name(pack: &str, invalid: &mut Invalid) {
    let field = format!("pack {pack}");
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let begins = pack.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || !pack.chars().all(fits) || pack.len() > LONGEST {
        invalid.add(
            &field,
            format!("the name of a pack with tables must be 1–{LONGEST} of a–z 0–9, a letter first"),
        );
    }
    let tables = TABLES.iter().chain(entity::TABLES).map(|table| table.name);
    let names = tables.chain(TABLES_LEFT_OUT.iter().map(|(name, _)| *name)).chain(NAMES.iter().copied());
    let clash =
        |name: &&str| name.strip_prefix(pack).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    if let Some(name) = names.into_iter().find(clash) {
        invalid.add(&field, format!("its tables would be named like `{name}`, which belongs to windlass"));
    }
}

fn check_text(pack: &str, field: &str, text: &SqlText, invalid: &mut Invalid) {
    let texts = match text {
        SqlText::Same(text) => vec![*text],
        SqlText::Each { sqlite, postgres, because } => {
            if because.trim().is_empty() {
                invalid.add(field, "must say why the databases differ (`because`)");
            }
            vec![*sqlite, *postgres]
        }
    };
    for text in texts {
        let pieces: Vec<Piece<'_>> =
            pieces(text).into_iter().filter(|piece| piece.kind != Kind::Space).collect();
        if pieces.is_empty() {
            invalid.add(field, "has no statement");
        }
        for statement in pieces.split(|piece| piece.is(";")) {
            if let Some(name) = foreign(pack, statement) {
                invalid.add(field, format!("`{name}` is not named windlass.{pack}_…"));
            }
        }
    }
}

/// The object that the statement creates, changes or drops, if it does not belong to the pack.
fn foreign(pack: &str, statement: &[Piece<'_>]) -> Option<String> {
    const VERBS: [&str; 3] = ["create", "alter", "drop"];
    const KINDS: [&str; 7] = ["table", "view", "index", "trigger", "function", "sequence", "type"];
    const BEFORE_NAME: [&str; 5] = ["concurrently", "if", "not", "exists", "only"];
    let one_of = |piece: &Piece<'_>, words: &[&str]| words.iter().any(|word| piece.is(word));
    if !statement.first().is_some_and(|piece| one_of(piece, &VERBS)) {
        return None;
    }
    let Some(kind) = statement.iter().position(|piece| one_of(piece, &KINDS)) else {
        return Some(statement.iter().take(3).map(|piece| piece.text).collect::<Vec<_>>().join(" "));
    };
    let mut name = statement[kind + 1..].iter().skip_while(|piece| one_of(piece, &BEFORE_NAME));
    let name_pieces: Vec<&Piece<'_>> = name.by_ref().take(3).collect();
    let is_own = |piece: &Piece<'_>| {
        let rest = piece.text.to_ascii_lowercase().strip_prefix(pack).map(str::to_owned);
        piece.kind == Kind::Word && rest.is_some_and(|rest| rest.len() > 1 && rest.starts_with('_'))
    };
    let ours = match name_pieces.as_slice() {
        [schema, dot, name] if dot.is(".") => schema.is(SCHEMA) && is_own(name),
        // On Postgres, a trigger is named within its table, without a schema.
        [name, ..] if statement[kind].is("trigger") => is_own(name),
        _ => false,
    };
    let shown = if name_pieces.get(1).is_some_and(|dot| dot.is(".")) { 3 } else { 1 };
    (!ours).then(|| name_pieces.iter().take(shown).map(|piece| piece.text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(version: i64, name: &'static str, up: &'static str) -> PackStep {
        PackStep {
            version,
            name,
            up: SqlText::Same(up),
            down: SqlText::Same("drop table if exists windlass.guest_a"),
        }
    }

    fn problems(pack: &str, steps: &[PackStep]) -> String {
        check_steps(pack, steps).map_or_else(|invalid| invalid.to_string(), |()| String::new())
    }

    const TABLE: &str = "create table windlass.guest_a (id bigint)";

    #[test]
    fn steps_need_consecutive_numbers_and_unique_names() {
        assert_eq!(problems("guest", &[step(1, "a", TABLE), step(2, "b", TABLE)]), "");
        assert!(problems("guest", &[step(2, "a", TABLE)]).contains("step 2: must be 1"));
        assert!(problems("guest", &[step(1, "a", TABLE), step(1, "b", TABLE)]).contains("step 1: must be 2"));
        let both = problems("guest", &[step(1, "a", TABLE), step(3, "a", "  -- nothing")]);
        for rule in ["must be 2", "`a` must be unique", "step 3, up: has no statement"] {
            assert!(both.contains(rule), "{both}");
        }
    }

    #[test]
    fn a_pack_may_only_change_its_own_objects() {
        for fine in [
            "create table if not exists windlass.guest_a (job bigint references windlass.jobs); insert into x values (1)",
            "create unique index windlass.guest_i on windlass.guest_a (id); create view windlass.guest_v as select 1",
            "alter table only windlass.guest_a add x text; create trigger guest_t after insert on windlass.guest_a",
            "create function windlass.guest_f() returns trigger as $$ begin create table x (); end $$ language plpgsql",
        ] {
            assert_eq!(problems("guest", &[step(1, "a", fine)]), "", "{fine}");
        }
        for (bad, name) in [
            ("create table guest_a (id bigint)", "`guest_a`"),
            ("create table windlass.jobs (id bigint)", "`windlass.jobs`"),
            ("create table windlass.guest (id bigint)", "`windlass.guest`"),
            ("create table windlass.guests_a (id bigint)", "`windlass.guests_a`"),
            ("CREATE TEMP TABLE IF NOT EXISTS public.guest_a (id bigint)", "`public.guest_a`"),
            ("select 1; alter table windlass.jobs add x text", "`windlass.jobs`"),
            ("drop index windlass.ready_id", "`windlass.ready_id`"),
            ("create trigger t after insert on windlass.jobs", "`t`"),
            ("create extension pgcrypto", "`create extension pgcrypto`"),
            ("create table \"windlass.guest_a\" (id bigint)", "`\"windlass.guest_a\"`"),
        ] {
            let problems = problems("guest", &[step(1, "a", bad)]);
            assert!(problems.contains(name) && problems.contains("windlass.guest_…"), "{bad}: {problems}");
        }
    }

    #[test]
    fn a_pack_cannot_use_names_of_the_schema() {
        let drop = SqlText::Same("delete from x");
        let steps = [PackStep { version: 1, name: "a", up: drop, down: drop }];
        assert_eq!(problems("guest2", &steps), "");
        assert_eq!(problems("backup", &steps), "", "no table of ours begins with `backup_`");
        for taken in ["jobs", "budget", "workflow", "pack", "token", "attempt", "entities"] {
            assert!(problems(taken, &steps).contains("which belongs to windlass"), "{taken}");
        }
        for odd in ["", "Guest", "guest_book", "2guest", "guest-book", "a234567890123456789012345"] {
            assert!(problems(odd, &steps).contains("a letter first"), "{odd}");
        }
        assert_eq!(problems("a-b", &[]), "", "a pack without tables may have any name");
    }

    #[test]
    fn a_step_that_differs_between_databases_needs_a_reason() {
        let each = |because| SqlText::Each { sqlite: TABLE, postgres: TABLE, because };
        let step = |because| PackStep { up: each(because), ..step(1, "a", TABLE) };
        assert_eq!(problems("guest", &[step("identity columns")]), "");
        assert!(problems("guest", &[step(" ")]).contains("step 1, up: must say why the databases differ"));
        let hidden = SqlText::Each { sqlite: TABLE, postgres: "create table x (y int)", because: "z" };
        assert!(
            problems("guest", &[PackStep { up: hidden, ..step("z") }]).contains("`x`"),
            "both texts are checked"
        );
    }
}
