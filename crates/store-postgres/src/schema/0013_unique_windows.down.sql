drop table windlass.unique_windows;
