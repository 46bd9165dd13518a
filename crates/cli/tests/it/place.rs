//! A folder for one test, and the binary run in it.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path().join("windlass-data").join("windlass.db")
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The binary without environment variables it would read.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars() {
            if name.to_lowercase().starts_with("windlass_") {
                command.env_remove(name);
            }
        }
        command.env_remove("DATABASE_URL").env_remove("RUST_LOG");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(args, self.command(args))
    }

    /// On a terminal, provided by `script`.
    pub(crate) fn on_a_terminal(&self, args: &[&str]) -> Ran {
        let quoted = args.iter().map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(" ");
        let inner = format!("stty cols 200; exec '{}' {quoted}", env!("CARGO_BIN_EXE_windlass"));
        let mut command = Command::new("script");
        command.args(["-qec", &inner, "/dev/null"]).current_dir(self.path()).stdin(Stdio::null());
        command.env_remove("DATABASE_URL").env("NO_COLOR", "1");
        Ran::of(args, command).ok()
    }

    pub(crate) fn run_env(&self, args: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        Ran::of(args, command)
    }

    pub(crate) fn pipe(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Concurrently with reading: output may fill its pipe before all input is written.
        std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input.as_bytes()).unwrap());
            Ran::from(args, child.wait_with_output().unwrap())
        })
    }

    pub(crate) fn count(&self, args: &[&str]) -> u64 {
        let args = [&["jobs", "count", "--json"], args].concat();
        self.run(&args).ok().json()["count"].as_u64().unwrap()
    }

    /// A worker in the background; it ends with the test.
    pub(crate) fn serve(&self, args: &[&str]) -> Server {
        let server = self.start(args);
        server.wait_for("is ready");
        server
    }

    /// Any long-running verb.
    pub(crate) fn start(&self, args: &[&str]) -> Server {
        let out = std::fs::File::create(self.path().join("serve.out")).unwrap();
        let err = std::fs::File::create(self.path().join("serve.err")).unwrap();
        let mut command = self.command(args);
        // Many servers run at once, so each takes a free port.
        command.env("WINDLASS_SERVER__BIND", "127.0.0.1:0");
        let child = command.stdout(out).stderr(err).spawn().unwrap();
        Server { child, folder: self.path().to_owned() }
    }
}

pub(crate) struct Ran {
    args: String,
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(args: &[&str], mut command: Command) -> Ran {
        Ran::from(args, command.output().unwrap())
    }

    fn from(args: &[&str], output: std::process::Output) -> Ran {
        Ran {
            args: args.join(" "),
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn shown(&self) -> String {
        format!("windlass {}\nexit {}\n{}\n{}", self.args, self.code, self.out, self.err)
    }

    pub(crate) fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "{}", self.shown());
        self
    }

    /// Failed with `code` and printed each of `parts` on stderr.
    pub(crate) fn fails(self, code: i32, parts: &[&str]) -> Ran {
        assert_eq!(self.code, code, "{}", self.shown());
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is missing in\n{}", self.shown());
        }
        self
    }

    pub(crate) fn says(self, parts: &[&str]) -> Ran {
        for part in parts {
            assert!(self.out.contains(part), "`{part}` is missing in\n{}", self.shown());
        }
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{}", self.shown()))
    }
}

pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    pub(crate) fn output(&self) -> String {
        let read = |name| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        format!("{}{}", read("serve.out"), read("serve.err"))
    }

    /// The address of its HTTP interface.
    pub(crate) fn address(&self) -> String {
        self.output().split("http://").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    }

    /// One request; returns the status and the JSON of the response.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (address, body) = (self.address(), body.to_string());
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        let length = body.len();
        let request =
            format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
    }

    /// Stops it and checks that it ended cleanly.
    pub(crate) fn stop(mut self) {
        self.signal("-TERM");
        assert_eq!(self.wait(), 0, "{}", self.output());
    }

    pub(crate) fn wait_for(&self, text: &str) {
        let begun = Instant::now();
        while !self.output().contains(text) {
            assert!(begun.elapsed() < Duration::from_secs(20), "no `{text}` in\n{}", self.output());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn wait(&mut self) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "still running\n{}", self.output());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A schema for this test. Tests with the same name run in separate processes.
pub(crate) fn postgres(name: &str) -> String {
    let server = std::env::var("WINDLASS_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned());
    format!("{server}?schema=wlc_{name}_{}", std::process::id())
}

/// Splits a line like a shell.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}
