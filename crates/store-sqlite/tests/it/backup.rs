//! The list of what a backup contains matches the schema.

use windlass_core::backup::{COLUMNS_LEFT_OUT, TABLES_LEFT_OUT};

use windlass_testkit::conformance::backup_fixture::holdings;

use crate::setup::Setup;

#[tokio::test]
async fn every_column_is_in_a_backup_or_left_out_for_a_reason() {
    let setup = Setup::new().await;
    let connection = rusqlite::Connection::open(setup.path()).unwrap();
    let mut statement = connection
        .prepare(
            "select substr(t.name, 10), c.name from sqlite_schema t, pragma_table_info(t.name) c
             where t.type = 'table' and t.name like 'windlass\\_%' escape '\\' order by 1, c.cid",
        )
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    let found: Vec<(String, String)> = rows.unwrap().map(Result::unwrap).collect();
    assert!(found.len() > 100, "{found:?}");
    for (name, column) in &found {
        if TABLES_LEFT_OUT.iter().any(|(left, _)| left == name)
            || COLUMNS_LEFT_OUT.iter().any(|(left, of, _)| (*left, *of) == (name, column))
        {
            continue;
        }
        let known = holdings().table(name).and_then(|table| table.column(column));
        assert!(
            known.is_some(),
            "`{name}.{column}` is neither listed in a backup nor left out with a reason"
        );
    }
    for table in holdings().tables {
        for column in table.columns {
            let there =
                found.iter().any(|(name, of)| (name.as_str(), of.as_str()) == (table.name, column.name));
            assert!(there, "`{}.{}` is not in the schema", table.name, column.name);
        }
    }
}
