//! The examples below each verb's help. A test parses every line.

pub(super) const TOP: &str = "Try it:
  windlass demo
  windlass enqueue NOOP --wait     (with `windlass serve` in another terminal)
  windlass search product \"a quiet gift\" --filter 'price<20'

Exit codes: 0 done, 1 failed, 2 wrong usage.";

pub(super) const SERVE: &str = "Examples:
  windlass serve
  windlass serve --bind 127.0.0.1:9000 --database sqlite://shop.db
  windlass serve --migrate --database postgres://me@localhost/shop

Without --database it is ./windlass-data/windlass.db. Verbs in the same folder find the database of a
server that runs there.";

pub(super) const WORKER: &str = "Example:
  windlass worker --queues high,default";

pub(super) const DEMO: &str = "Examples:
  windlass demo
  windlass demo --no-serve
  windlass demo --bind 127.0.0.1:9000

Without --database it works in ./windlass-data/demo.db, and again there the next time.";

pub(super) const MIGRATE: &str = "Examples:
  windlass migrate status
  windlass migrate up --database postgres://me@localhost/shop
  windlass migrate down --to 3";

pub(super) const ENQUEUE: &str = "Examples:
  windlass enqueue SLEEP --payload '{\"ms\": 200}' --in 5m
  windlass enqueue NOOP --unique-key nightly --on-conflict replace --wait 10
  windlass enqueue NOOP --unique-key welcome:42 --unique-for 10m
  echo '{\"kind\": \"NOOP\", \"payload\": {}}' | windlass enqueue --bulk -

A bulk line is an object with kind, payload, priority, run_at or delay, unique_key, unique_until, on_conflict, unique_for,
idempotency_key, concurrency_key, max_attempts, timeout, tags. The whole file is checked before
anything is written.";

pub(super) const JOBS: &str = "Examples:
  windlass jobs --state failed,dead_letter
  windlass jobs --entity product:p001
  windlass jobs count --queue high --json
  windlass jobs retry --kind FAIL --state dead_letter --yes
  windlass jobs set 7466421690327171072 --priority 0 --in 5m";

pub(super) const QUEUES: &str = "Examples:
  windlass queues
  windlass queues pause low
  windlass queues set low --concurrency 2 --depth-cap 10000
  windlass queues set bulk --global-concurrency 4
  windlass queues set bulk --concurrency-min 2 --concurrency-max 32
  windlass queues set screenshot --permits 5
  windlass queues set low --boost-after 5m
  windlass queues set low --concurrency configured

Between two bounds each worker finds its own concurrency, by backlog and run times.";

pub(super) const KINDS: &str = "Examples:
  windlass kinds --json
  windlass kinds set SEND_RECEIPT --rate 30/m
  windlass kinds set SEND_RECEIPT --rate none
  windlass kinds set SCREENSHOT_CAPTURE --permits 5
  windlass kinds set SYNC_TENANT --key-concurrency 3

Running workers follow within seconds.";

pub(super) const WORKERS: &str = "Example:
  windlass workers --json";

pub(super) const DEAD_LETTERS: &str = "Examples:
  windlass dead-letters
  windlass dead-letters replay --queue default --yes";

pub(super) const CLEANUP: &str = "Examples:
  windlass cleanup
  windlass cleanup run finished --older-than 1d --dry-run";

pub(super) const BACKUP: &str = "Examples:
  windlass backup shop.backup
  windlass backup verify shop.backup
  windlass backup list --json

The backup is a snapshot of one moment, even if it takes long and others write meanwhile. It restores into either
database. `[backup]` in the configuration makes and verifies backups on a schedule.";

pub(super) const RESTORE: &str = "Examples:
  windlass restore shop.backup --database sqlite://shop.db
  windlass restore shop.backup --database postgres://me@localhost/shop

The database must be empty: nothing is ever overwritten. A new one is created, with its schema. Jobs that
were running at the time of the backup are waiting again.";

pub(super) const DOCTOR: &str = "Examples:
  windlass doctor
  windlass doctor --json --database postgres://me@localhost/shop

Exit code 1 if there are problems.";

pub(super) const CONFIG: &str = "Examples:
  windlass config show
  windlass config init windlass.toml";

pub(super) const TOP_VIEW: &str = "Examples:
  windlass top
  windlass top --every 5s --database postgres://me@localhost/shop
  windlass top --json

On a terminal: q quits, p pauses or resumes the selected queue (asks first), s sorts, ? explains. Without
a terminal a plain table is printed each time; --json prints one reading and ends.";

pub(super) const BENCH: &str = "Examples:
  windlass bench queue --jobs 20000
  windlass bench index --docs 5000 --rate 2000 --json
  windlass bench search --docs 20000 --queries 200
  windlass bench soak --rate 1000 --for 30s
  windlass bench schedules --schedules 10000 --for 1m

Everything happens in a file or schema of its own, which is gone afterwards.";

pub(super) const OPENAPI: &str = "Example:
  windlass openapi --json";

pub(super) const COMPLETIONS: &str = "Example:
  windlass completions bash";
