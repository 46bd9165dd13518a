-- Budgets --------------------------------------------------------------------------------------------------------
-- Amounts are millionths of the currency's unit, months are UTC and read 2026-11.

create table windlass_budgets (
    id         integer primary key,
    name       text not null unique,
    currency   text not null,
    amount     integer check (amount >= 0),
    tokens     integer check (tokens >= 0),
    thresholds text not null check (json_valid(thresholds)),
    check (amount is not null or tokens is not null)
) strict;

-- One row per budget and month: its sums and its lock. It is updated twice per provider call. That is no counter per
-- job: such a call costs money and seconds, and whether it may be made at all depends on this row.
-- live_*: an operator set the limit of this month, and the configuration leaves it alone.
create table windlass_budget_months (
    budget          integer not null references windlass_budgets (id),
    month           text not null check (month glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]'),
    limit_amount    integer check (limit_amount >= 0),
    limit_tokens    integer check (limit_tokens >= 0),
    live_amount     integer not null default 0 check (live_amount in (0, 1)),
    live_tokens     integer not null default 0 check (live_tokens in (0, 1)),
    settled_amount  integer not null default 0 check (settled_amount >= 0),
    settled_tokens  integer not null default 0 check (settled_tokens >= 0),
    reserved_amount integer not null default 0 check (reserved_amount >= 0),
    reserved_tokens integer not null default 0 check (reserved_tokens >= 0),
    updated_at      integer not null,
    primary key (budget, month)
) strict, without rowid;

-- Calls under way: what each may cost, and the lease it was made under. Numbers are never used again: they are the
-- calls' keys in the ledger.
create table windlass_reservations (
    id      integer primary key autoincrement,
    budget  integer not null,
    month   text not null,
    job_id  integer not null,
    token   integer not null,
    kind    text not null,
    user_id text,
    amount  integer not null check (amount >= 0),
    tokens  integer not null check (tokens >= 0),
    at      integer not null
) strict;

-- What was booked. Rows are added and never changed; those of a month add up to its settled sums.
create table windlass_usage_ledger (
    seq         integer primary key autoincrement,
    at          integer not null,
    budget      integer not null,
    month       text not null,
    how         text not null check (how in ('settled', 'leaked', 'reset')),
    reservation integer unique,
    token       integer,
    job_id      integer,
    kind        text,
    user_id     text,
    provider    text,
    model       text,
    tokens_in   integer not null,
    tokens_out  integer not null,
    amount      integer not null,
    check ((how = 'reset') = (reservation is null)),
    check ((reservation is null) = (job_id is null) and (job_id is null) = (kind is null)
           and (job_id is null) = (token is null))
) strict;

create index windlass_usage_ledger_month on windlass_usage_ledger (budget, month, seq);

-- The ledger's sums by kind, user and provider, so that nobody has to read a month of it. Written under the month's lock.
create table windlass_budget_costs (
    budget     integer not null,
    month      text not null,
    dimension  text not null check (dimension in ('kind', 'user', 'provider')),
    key        text not null,
    requests   integer not null,
    tokens_in  integer not null,
    tokens_out integer not null,
    amount     integer not null,
    updated_at integer not null,
    primary key (budget, month, dimension, key)
) strict, without rowid;

-- An alert that fired; the key is why it fires once.
create table windlass_budget_alerts (
    budget  integer not null,
    month   text not null,
    percent integer not null,
    level   text not null check (level in ('INFO', 'WARNING', 'CRITICAL')),
    at      integer not null,
    primary key (budget, month, percent)
) strict, without rowid;

-- Audit ----------------------------------------------------------------------------------------------------------
-- What operators did, written in the transaction that did it.

create table windlass_audit (
    seq     integer primary key autoincrement,
    at      integer not null,
    actor   text not null,
    act     text not null,
    subject text not null,
    detail  text not null check (json_valid(detail))
) strict;

-- For people -----------------------------------------------------------------------------------------------------
-- Document 002's table, of the budget `ai`.

create view windlass_ai_usage_tracking as
select c.month || '-01' as month, c.key as provider, c.requests as total_requests,
       c.tokens_in as total_tokens_input, c.tokens_out as total_tokens_output,
       cast(round(c.amount / 1e4) as integer) as estimated_cost_cents,
       cast(round(m.limit_amount / 1e4) as integer) as budget_limit_cents,
       strftime('%Y-%m-%dT%H:%M:%fZ', c.updated_at / 1e6, 'unixepoch') as updated_at
from windlass_budget_costs c
join windlass_budgets b on b.id = c.budget and b.name = 'ai'
join windlass_budget_months m on m.budget = c.budget and m.month = c.month
where c.dimension = 'provider';
