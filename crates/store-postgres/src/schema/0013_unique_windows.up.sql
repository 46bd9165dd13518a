-- Unique keys whose window lasts: until then another job with the key and a window is a duplicate of job_id.
create table windlass.unique_windows (
    key    text primary key,
    job_id bigint not null,
    until  timestamptz not null
);

create index unique_windows_until on windlass.unique_windows (until);
create index unique_windows_job on windlass.unique_windows (job_id);
