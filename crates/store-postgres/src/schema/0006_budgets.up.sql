-- Budgets --------------------------------------------------------------------------------------------------------
-- Amounts are millionths of the currency's unit, months are UTC and read 2026-11.

create table windlass.budgets (
    id         integer generated always as identity primary key,
    name       text collate "C" not null unique,
    currency   text not null,
    amount     bigint check (amount >= 0),
    tokens     bigint check (tokens >= 0),
    thresholds json not null,
    constraint budgets_bounds_something check (amount is not null or tokens is not null)
);

-- One row per budget and month: its sums and its lock. It is updated twice per provider call. That is no counter per
-- job: such a call costs money and seconds, and whether it may be made at all depends on this row.
-- live_*: an operator set the limit of this month, and the configuration leaves it alone.
create table windlass.budget_months (
    budget          integer not null references windlass.budgets (id),
    month           text collate "C" not null check (month ~ '^[0-9]{4}-[0-9]{2}$'),
    limit_amount    bigint check (limit_amount >= 0),
    limit_tokens    bigint check (limit_tokens >= 0),
    live_amount     boolean not null default false,
    live_tokens     boolean not null default false,
    settled_amount  bigint not null default 0 check (settled_amount >= 0),
    settled_tokens  bigint not null default 0 check (settled_tokens >= 0),
    reserved_amount bigint not null default 0 check (reserved_amount >= 0),
    reserved_tokens bigint not null default 0 check (reserved_tokens >= 0),
    updated_at      timestamptz not null,
    primary key (budget, month)
) with (fillfactor = 50);

-- Calls under way: what each may cost, and the lease it was made under. Numbers are never used again: they are the
-- calls' keys in the ledger.
create table windlass.reservations (
    id      bigint generated always as identity primary key,
    budget  integer not null,
    month   text collate "C" not null,
    job_id  bigint not null,
    token   bigint not null,
    kind    text not null,
    user_id text,
    amount  bigint not null check (amount >= 0),
    tokens  bigint not null check (tokens >= 0),
    at      timestamptz not null
);

-- What was booked. Rows are added and never changed; those of a month add up to its settled sums.
create table windlass.usage_ledger (
    seq         bigint generated always as identity primary key,
    at          timestamptz not null,
    budget      integer not null,
    month       text collate "C" not null,
    how         text not null check (how in ('settled', 'leaked', 'reset')),
    reservation bigint unique,
    token       bigint,
    job_id      bigint,
    kind        text,
    user_id     text,
    provider    text,
    model       text,
    tokens_in   bigint not null,
    tokens_out  bigint not null,
    amount      bigint not null,
    constraint usage_ledger_reset_has_no_call check ((how = 'reset') = (reservation is null)),
    constraint usage_ledger_call_whole check (num_nulls(reservation, token, job_id, kind) in (0, 4))
);

create index usage_ledger_month on windlass.usage_ledger (budget, month, seq);

-- The ledger's sums by kind, user and provider, so that nobody has to read a month of it. Written under the month's lock.
create table windlass.budget_costs (
    budget     integer not null,
    month      text collate "C" not null,
    dimension  text not null check (dimension in ('kind', 'user', 'provider')),
    key        text collate "C" not null,
    requests   bigint not null,
    tokens_in  bigint not null,
    tokens_out bigint not null,
    amount     bigint not null,
    updated_at timestamptz not null,
    primary key (budget, month, dimension, key)
) with (fillfactor = 70);

-- An alert that fired; the key is why it fires once.
create table windlass.budget_alerts (
    budget  integer not null,
    month   text collate "C" not null,
    percent smallint not null,
    level   text not null check (level in ('INFO', 'WARNING', 'CRITICAL')),
    at      timestamptz not null,
    primary key (budget, month, percent)
);

-- Audit ----------------------------------------------------------------------------------------------------------
-- What operators did, written in the transaction that did it.

create table windlass.audit (
    seq     bigint generated always as identity primary key,
    at      timestamptz not null,
    actor   text not null,
    act     text not null,
    subject text not null,
    detail  json not null
);

-- For people -----------------------------------------------------------------------------------------------------
-- Document 002's table, of the budget `ai`.

create view windlass.ai_usage_tracking as
select to_date(c.month, 'YYYY-MM') as month, c.key as provider, c.requests as total_requests,
       c.tokens_in as total_tokens_input, c.tokens_out as total_tokens_output,
       round(c.amount / 1e4)::bigint as estimated_cost_cents,
       round(m.limit_amount / 1e4)::bigint as budget_limit_cents,
       c.updated_at
from windlass.budget_costs c
join windlass.budgets b on b.id = c.budget and b.name = 'ai'
join windlass.budget_months m on m.budget = c.budget and m.month = c.month
where c.dimension = 'provider';
