-- The lines, in their order. Who stands there is in ready too, under the negative number of the queue; a job that is claimed
-- leaves its entry here behind, to be cleared away with others of its lane: with an index over ready every claim would write
-- the page of its line. attempt is null for a suspect.
create table windlass_lines (
    lane     integer not null,
    priority integer not null,
    run_at   integer not null,
    id       integer not null,
    attempt  integer,
    primary key (lane, priority, run_at, id)
) strict, without rowid;

insert into windlass_lines (lane, priority, run_at, id, attempt)
select lane, priority, run_at, id, iif(suspect is null, attempt, null) from windlass_ready where queue < 0;
drop index windlass_ready_lined;

-- A free slot of a lane whose line is due is offered to who stands first there, and stands in the order of claims where that
-- job would: a turn. A claim that comes to it takes that job out of the line, or whoever is first by then. So no job is moved
-- from the line to the ready ones, and a slot that goes from one job to the next is not written at all: nobody's name is on
-- it. Among the ready jobs of a lane only those stay that came back unrun and kept their slot.
-- offers: [lane, id, run_at, attempt] of each job a slot is offered to; attempt is null for a suspect.
create table windlass_turns (
    turn     integer primary key,
    queue    integer not null,
    priority integer not null,
    place    integer not null,
    kind     integer not null,
    offers   text not null check (json_array_length(offers) > 0)
) strict;

create index windlass_turns_place on windlass_turns (queue, priority, place);

alter table windlass_slots drop column job_id;

-- Slots above the limit may be taken: it was lowered.
alter table windlass_kinds add column key_lowered integer not null default 1 check (key_lowered in (0, 1));
