pragma writable_schema = on;
update sqlite_schema set sql = replace(sql, 'state between 3 and 7', 'state in (3, 4, 5, 6, 7)')
where type = 'table' and name = 'windlass_finished';
update sqlite_schema set sql = replace(sql, 'state between 1 and 4', 'state in (1, 2, 3, 4)')
where type = 'table' and name = 'windlass_entities';
pragma writable_schema = reset;

create table windlass_schema_moved (x integer) strict;
drop table windlass_schema_moved;
