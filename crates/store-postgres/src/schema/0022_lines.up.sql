-- A number is drawn whenever looks at lanes are followed, by whichever version of us: while it stands still, and no look is
-- left, nobody got in line. The first one drawn would not show.
create sequence windlass.line_seq;
select nextval('windlass.line_seq');

create function windlass.looks_followed() returns trigger language plpgsql as $$
begin
    perform nextval('windlass.line_seq');
    return null;
end $$;

create trigger looks_followed after delete on windlass.looks for each statement execute function windlass.looks_followed();
