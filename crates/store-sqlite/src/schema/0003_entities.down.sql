drop table windlass_vectors;
drop table windlass_entities;
drop table windlass_types;
