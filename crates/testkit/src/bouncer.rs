//! A PgBouncer for one test, by default in transaction mode, in front of the Postgres server of the tests.
//!
//! In transaction mode it has fewer sessions than its clients have connections, so that code which relies on a session
//! fails.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::Process;
use crate::signal::{Seen, wait_until_blocking};

const SESSIONS: u32 = 4;

pub struct Bouncer {
    /// URL of the database through the bouncer.
    pub url: String,
    _process: Process,
}

impl Bouncer {
    /// `server` is the URL of the database; configuration and log go to `directory`.
    pub fn start(server: &str, directory: &Path) -> Bouncer {
        Bouncer::in_mode("transaction", SESSIONS, server, directory)
    }

    /// In session mode: each client keeps its session while it is connected.
    pub fn by_session(server: &str, directory: &Path) -> Bouncer {
        Bouncer::in_mode("session", SESSIONS * 8, server, directory)
    }

    fn in_mode(mode: &str, sessions: u32, server: &str, directory: &Path) -> Bouncer {
        let target = Target::of(server);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = directory.join("pgbouncer.ini");
        std::fs::write(&file, target.configuration(port, mode, sessions)).unwrap();
        let mut command = Command::new("/usr/sbin/pgbouncer");
        if rustix::process::geteuid().is_root() {
            // PgBouncer refuses to run as root.
            command.args(["-u", "postgres"]);
        }
        command.arg(&file);
        let process = Process::start("pgbouncer", directory, command)
            .expect("pgbouncer is not installed; ./test installs Debian's package");
        wait_until_blocking("pgbouncer to answer", Duration::from_secs(20), || {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(_) => Seen::Yes(()),
                Err(error) => Seen::NotYet(format!("{error}; {}", process.output())),
            }
        });
        let url = format!("postgres://{}@127.0.0.1:{port}/{}", target.user, target.database);
        Bouncer { url, _process: process }
    }
}

/// The parts of `postgres://user[:password]@host[:port]/database`.
struct Target {
    user: String,
    password: Option<String>,
    host: String,
    port: String,
    database: String,
}

impl Target {
    fn of(server: &str) -> Target {
        let rest = server.split_once("://").expect("an address has a scheme").1;
        let rest = rest.split('?').next().unwrap_or(rest);
        let (user, place) = rest.rsplit_once('@').unwrap_or(("postgres", rest));
        let (place, database) = place.split_once('/').unwrap_or((place, "postgres"));
        let (host, port) = place.rsplit_once(':').unwrap_or((place, "5432"));
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, Some(password.to_owned())),
            None => (user, None),
        };
        let owned = str::to_owned;
        Target {
            user: owned(user),
            password,
            host: owned(host),
            port: owned(port),
            database: owned(database),
        }
    }

    fn configuration(&self, listen: u16, mode: &str, sessions: u32) -> String {
        let Target { user, password, host, port, database } = self;
        let password = password.as_ref().map(|word| format!(" password={word}")).unwrap_or_default();
        format!(
            "[databases]\n{database} = host={host} port={port} dbname={database} user={user}{password}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {listen}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = {mode}\ndefault_pool_size = {sessions}\nmax_client_conn = 500\n"
        )
    }
}
