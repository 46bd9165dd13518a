-- A check by `in` with more than two values makes SQLite build a table of them for every row it checks, which cost as
-- much as writing the row. The text of a check may be changed in place (sqlite.org/lang_altertable.html, "other kinds of
-- changes"): no row is touched.
pragma writable_schema = on;
update sqlite_schema set sql = replace(sql, 'state in (3, 4, 5, 6, 7)', 'state between 3 and 7')
where type = 'table' and name = 'windlass_finished';
update sqlite_schema set sql = replace(sql, 'state in (1, 2, 3, 4)', 'state between 1 and 4')
where type = 'table' and name = 'windlass_entities';
pragma writable_schema = reset;

-- Other connections read the schema again when its number moves, which this makes it do.
create table windlass_schema_moved (x integer) strict;
drop table windlass_schema_moved;
