drop table windlass.vectors;
drop table windlass.entities;
drop table windlass.types;
