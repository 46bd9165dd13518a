"""The Postgres server under test, reached through psql so that the harness needs no driver."""

import contextlib
import os
from urllib.parse import urlsplit, urlunsplit

from .process import run

# Settings that change what is measured. The harness never sets any of them; it reports those that are not stock.
TELLING = (
    "autovacuum", "fsync", "full_page_writes", "synchronous_commit", "wal_level", "wal_compression",
    "shared_buffers", "max_wal_size", "checkpoint_timeout", "jit", "max_connections", "work_mem",
)


class Server:
    def __init__(self, url):
        self.url = url

    def url_of(self, database):
        # Some drivers would take TLS when the server offers it and others not; nobody pays for it here.
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}", query="sslmode=disable"))

    def sql(self, statement):
        command = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-c", statement]
        return run(command).strip()

    @contextlib.contextmanager
    def database(self, label):
        name = f"windlass_bench_{label}_{os.getpid()}"
        self.sql(f"create database {name}")
        try:
            yield name
        finally:
            self.sql(f"drop database if exists {name} with (force)")

    def version(self):
        return self.sql("show server_version").split()[0]

    def not_stock(self):
        names = ", ".join(f"'{name}'" for name in TELLING)
        rows = self.sql(
            "select name || '=' || setting || ' (stock ' || boot_val || ')' from pg_settings"
            f" where name in ({names}) and setting is distinct from boot_val order by name"
        )
        return rows.splitlines()

    def commits(self, database):
        return int(self.sql(f"select xact_commit from pg_stat_database where datname = '{database}'"))

    def wal_meter(self, database):
        return WalMeter(self, database)


class WalMeter:
    """WAL is counted for the whole server, so commits in other databases are counted beside it."""

    def __init__(self, server, database):
        self.server = server
        self.database = database
        server.sql("checkpoint")
        self.position = server.sql("select pg_current_wal_lsn()")
        self.strangers = self.stranger_commits()

    def stranger_commits(self):
        own = f"'{self.database}', current_database()"
        return int(self.server.sql(
            f"select coalesce(sum(xact_commit), 0) from pg_stat_database where datname not in ({own})"
        ))

    def read(self, jobs):
        written = int(self.server.sql(
            f"select pg_wal_lsn_diff(pg_current_wal_lsn(), '{self.position}')::bigint"
        ))
        return {
            "wal_bytes_per_job": written / jobs,
            "commits_elsewhere": self.stranger_commits() - self.strangers,
        }
