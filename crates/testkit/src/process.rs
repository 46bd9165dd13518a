//! A child process that a test kills, stops and resumes. Its output goes to files, so that a full pipe cannot block it
//! and a failure can show it. It never outlives the test.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::signal::{Seen, wait_until_blocking};

pub struct Process {
    name: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `command`; its output lands in `directory` as `<name>.out` and `<name>.err`.
    pub fn start(name: &str, directory: &Path, mut command: Command) -> io::Result<Process> {
        let stdout = directory.join(format!("{name}.out"));
        let stderr = directory.join(format!("{name}.err"));
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()?;
        Ok(Process { name: name.to_owned(), child, stdout, stderr })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: no handler runs, nothing is flushed. Returns after the process is gone.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// SIGTERM: the process is asked to finish.
    pub fn terminate(&self) -> io::Result<()> {
        self.send(Signal::TERM)
    }

    /// SIGSTOP: the process keeps its leases and locks, as when its machine stalls.
    pub fn stop(&self) -> io::Result<()> {
        self.send(Signal::STOP)
    }

    /// SIGCONT after [`Process::stop`].
    pub fn resume(&self) -> io::Result<()> {
        self.send(Signal::CONT)
    }

    // The child has not been waited for, so its process id cannot have been reused.
    fn send(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    pub fn is_running(&mut self) -> io::Result<bool> {
        self.child.try_wait().map(|status| status.is_none())
    }

    /// Waits for the end; panics after `deadline` with what the process wrote.
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        wait_until_blocking(&what, deadline, || match self.child.try_wait() {
            Ok(Some(status)) => Seen::Yes(status),
            Ok(None) => Seen::NotYet(format!("running; {}", self.output())),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    }

    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Both outputs, for a failure message.
    pub fn output(&self) -> String {
        format!("{} wrote\n--- stdout\n{}\n--- stderr\n{}", self.name, self.stdout(), self.stderr())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL also ends a stopped process. An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.output());
        }
    }
}

// Lossy, because a process may be killed in the middle of a character.
fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(10);

    fn shell(name: &str, directory: &Path, script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(name, directory, command).unwrap()
    }

    #[test]
    fn output_and_exit_status_are_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = shell("talker", directory.path(), "echo out; echo err >&2; exit 3");
        assert_eq!(process.wait(DEADLINE).code(), Some(3));
        assert_eq!((process.stdout(), process.stderr()), ("out\n".to_owned(), "err\n".to_owned()));
    }

    #[test]
    fn a_stopped_process_writes_nothing_until_it_is_resumed() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = shell("counter", directory.path(), "while :; do echo tick; sleep 0.01; done");
        wait_until_blocking("a first tick", DEADLINE, || Seen::when(process.stdout().len(), |n| *n > 0));
        process.stop().unwrap();
        let stat = PathBuf::from(format!("/proc/{}/stat", process.id()));
        wait_until_blocking("the stop", DEADLINE, || Seen::when(read(&stat), |text| text.contains(") T ")));
        let stopped_at = process.stdout().len();
        process.resume().unwrap();
        wait_until_blocking("another tick", DEADLINE, || {
            Seen::when(process.stdout().len(), |n| *n > stopped_at)
        });
        assert!(process.is_running().unwrap());
        assert!(!process.kill().unwrap().success());
    }

    #[test]
    fn dropping_the_guard_kills_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let process = shell("sleeper", directory.path(), "exec sleep 1000");
        let proc = PathBuf::from(format!("/proc/{}", process.id()));
        process.stop().unwrap();
        assert!(proc.exists());
        drop(process);
        assert!(!proc.exists());
    }
}
