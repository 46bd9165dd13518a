-- Unique keys whose window lasts: until then another job with the key and a window is a duplicate of job_id.
create table windlass_unique_windows (
    key    text primary key,
    job_id integer not null,
    until  integer not null
) strict, without rowid;

create index windlass_unique_windows_until on windlass_unique_windows (until);
create index windlass_unique_windows_job on windlass_unique_windows (job_id);
