alter table windlass_kinds drop column lined;
