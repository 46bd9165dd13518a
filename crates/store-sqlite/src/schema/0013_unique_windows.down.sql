drop table windlass_unique_windows;
