//! A Postgres server for one test, which can be restarted or require TLS.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub struct Server {
    /// Holds the data, the socket and the log.
    directory: PathBuf,
    programs: PathBuf,
    settings: String,
    port: u16,
}

impl Server {
    /// `directory` must be empty and outlive the server.
    pub fn start(directory: &Path) -> Server {
        let server = Server::made(directory, "");
        server.control("start", &[]);
        server
    }

    /// Accepts only TLS connections. Its certificate is for `localhost` and signed by [`Server::authority`].
    pub fn with_tls(directory: &Path) -> Server {
        let server =
            Server::made(directory, " -c ssl=on -c ssl_cert_file=server.pem -c ssl_key_file=server.key");
        server.authority("authority");
        server.openssl(
            "req -new -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr",
        );
        std::fs::write(server.data().join("names"), "subjectAltName=DNS:localhost\n").unwrap();
        server.openssl(
            "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 -extfile names \
             -out server.pem",
        );
        let who = "hostssl all all 127.0.0.1/32 trust\nhostssl all all ::1/128 trust\n";
        std::fs::write(server.data().join("pg_hba.conf"), who).unwrap();
        server.control("start", &[]);
        server
    }

    /// The certificate of an authority, created if missing.
    pub fn authority(&self, name: &str) -> PathBuf {
        let file = self.data().join(format!("{name}.pem"));
        if !file.exists() {
            self.openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
            ));
        }
        file
    }

    /// Like a crash: no checkpoint, connections are cut, and the start does recovery.
    pub fn restart(&self) {
        self.control("restart", &["-m", "immediate"]);
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn made(directory: &Path, settings: &str) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = directory.to_owned();
        let server = Server { directory, programs: newest_programs(), settings: settings.to_owned(), port };
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&server.directory));
        }
        let data = server.data();
        run(server
            .as_postgres(&server.programs.join("initdb"))
            .args(["-A", "trust", "-U", "postgres", "-N", "-D"])
            .arg(data));
        server
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn control(&self, verb: &str, more: &[&str]) {
        let place = self.directory.display();
        let options = format!("-p {} -k {place} -c max_connections=60{}", self.port, self.settings);
        let mut command = self.as_postgres(&self.programs.join("pg_ctl"));
        command.arg(verb).arg("-w").arg("-D").arg(self.data()).arg("-l").arg(self.directory.join("log"));
        run(command.arg("-o").arg(options).args(more));
    }

    /// Runs in the data folder as the server's user, because Postgres requires to own its key.
    fn openssl(&self, arguments: &str) {
        let mut command = self.as_postgres(Path::new("openssl"));
        run(command.args(arguments.split_whitespace()).current_dir(self.data()));
    }

    /// Postgres refuses to run as root.
    fn as_postgres(&self, program: &Path) -> Command {
        let mut command = match is_root() {
            true => Command::new("runuser"),
            false => Command::new(program),
        };
        if is_root() {
            command.args(["-u", "postgres", "--"]).arg(program);
        }
        command.current_dir(&self.directory);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.control("stop", &["-m", "immediate"]);
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn newest_programs() -> PathBuf {
    let versions = std::fs::read_dir(Path::new("/usr/lib/postgresql"))
        .expect("PostgreSQL's programs (./test installs them)");
    let newest = versions.map(|entry| entry.unwrap().path()).max().expect("one version of PostgreSQL");
    newest.join("bin")
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}
