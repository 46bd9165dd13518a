//! The live view: one reading, plain tables, and keys on a pseudo-terminal.

use std::fs::File;
use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use crate::place::Place;

/// The largest terminal in these tests.
const WIDEST: usize = 200;
const HIGHEST: usize = 60;

/// Start of an escape sequence for a text colour.
const FOREGROUND: &str = "\u{1b}[38;5;";

/// `top` in a pseudo-terminal of a given size; its output is collected in a file.
struct Terminal<'p> {
    place: &'p Place,
    child: Child,
    keys: ChildStdin,
}

impl<'p> Terminal<'p> {
    fn open(place: &'p Place, rows: u16, columns: u16, variables: &[(&str, &str)]) -> Terminal<'p> {
        let windlass = env!("CARGO_BIN_EXE_windlass");
        let inside = format!("stty rows {rows} cols {columns}; {windlass} top; echo ended $?");
        let mut command = std::process::Command::new("script");
        command.args(["-qfec", &inside, "drawn"]).current_dir(place.path()).env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR").env_remove("DATABASE_URL").envs(variables.iter().copied());
        let out = File::create(place.path().join("script.out")).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(out).stderr(Stdio::null()).spawn().unwrap();
        let keys = child.stdin.take().unwrap();
        Terminal { place, child, keys }
    }

    fn drawn(&self) -> String {
        let bytes = std::fs::read(self.place.path().join("drawn")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the screen shows the text.
    fn shows(&self, text: &str) {
        let begun = Instant::now();
        while !screen(&self.drawn()).contains(text) {
            let late = begun.elapsed() > Duration::from_secs(30);
            assert!(!late, "no `{text}` on\n{}", screen(&self.drawn()));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).unwrap();
    }

    fn quit(mut self) -> String {
        self.press("q");
        self.shows("ended 0");
        self.child.wait().unwrap();
        self.drawn()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of the screen after all output: characters, cursor moves and clearing.
fn screen(drawn: &str) -> String {
    let mut cells = vec![vec![' '; WIDEST]; HIGHEST];
    let (mut row, mut column) = (0, 0);
    let mut chars = drawn.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                let mut parameters = String::new();
                let end = chars.by_ref().find(|c| {
                    parameters.push(*c);
                    c.is_ascii_alphabetic()
                });
                let numbers: Vec<usize> = parameters
                    .trim_end_matches(char::is_alphabetic)
                    .split(';')
                    .map(|n| n.parse().unwrap_or(1))
                    .collect();
                match end {
                    Some('H') => (row, column) = (numbers[0] - 1, numbers.get(1).map_or(0, |n| n - 1)),
                    // The alternate screen starts empty; the first one does not matter here.
                    Some('h' | 'l') if !parameters.starts_with("?1049") => {}
                    Some('J' | 'h' | 'l') => cells.iter_mut().for_each(|line| line.fill(' ')),
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            c if c.is_control() => {}
            c => {
                if let Some(cell) = cells.get_mut(row).and_then(|line| line.get_mut(column)) {
                    *cell = c;
                }
                column += 1;
            }
        }
    }
    cells.into_iter().map(|line| line.into_iter().collect::<String>() + "\n").collect()
}

fn fill(place: &Place) {
    place.pipe(&["enqueue", "--bulk", "-"], &"{\"kind\":\"NOOP\",\"payload\":{}}\n".repeat(7)).ok();
}

#[test]
fn json_prints_one_reading() {
    let place = Place::new();
    fill(&place);
    let reading = place.run(&["top", "--json"]).ok().json();
    let queues = reading["queues"].as_array().unwrap();
    let default = queues.iter().find(|queue| queue["name"] == "DEFAULT").unwrap();
    assert_eq!((default["depth"].as_u64(), default["paused"].as_bool()), (Some(7), Some(false)));
    assert!(default["oldest_seconds"].as_f64().unwrap() >= 0.0, "{default}");
    assert_eq!(reading["workers"].as_array().map(Vec::len), Some(0));
    place.run(&["top", "--every", "200ms"]).fails(2, &["must be at least 1s"]);
}

/// Compares each number with the tables.
#[test]
fn numbers_equal_those_of_the_tables() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let _worker = place.serve(&["worker"]);
    for _ in 0..3 {
        place.run(&["enqueue", "SLEEP", "--payload", "{\"ms\": 60000}"]).ok();
    }
    let begun = Instant::now();
    while place.count(&["--state", "running"]) < 3 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no job was run");
    }
    place.run(&["queues", "pause", "DEFAULT"]).ok();
    fill(&place);
    place.run(&["enqueue", "NOOP", "--in", "1h"]).ok();
    let reading = place.run(&["top", "--json"]).ok().json();
    let queues = reading["queues"].as_array().unwrap();
    let default = queues.iter().find(|queue| queue["name"] == "DEFAULT").unwrap();
    let numbers = ["running", "depth", "scheduled"].map(|name| default[name].as_u64());
    assert_eq!(numbers, [Some(3), Some(7), Some(1)], "{default}");
    assert_eq!(default["paused"].as_bool(), Some(true));
    let workers = reading["workers"].as_array().unwrap();
    assert_eq!((workers.len(), workers[0]["running"].as_u64()), (1, Some(3)), "{reading}");
}

#[test]
fn plain_tables_are_printed_without_a_terminal() {
    let place = Place::new();
    fill(&place);
    let mut top = place.start(&["top"]);
    let begun = Instant::now();
    while top.output().matches("DEFAULT").count() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", top.output());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!top.output().contains('\u{1b}'), "{}", top.output());
    top.signal("-INT");
    assert_eq!(top.wait(), 0);
}

#[test]
fn keys_work_on_a_terminal() {
    let place = Place::new();
    fill(&place);
    place.run(&["enqueue", "FAIL", "--payload", "{\"times\": 9}", "--max-attempts", "1"]).ok();
    let server = place.serve(&["serve"]);
    let mut top = Terminal::open(&place, 24, 80, &[]);
    for part in
        ["windlass", " queues ", " workers ", "failed for good", "SCREENSHOT", "q quit", "1 worker alive"]
    {
        top.shows(part);
    }
    top.shows("failure 1 of 9");
    top.press("?");
    top.shows("pause or resume; asks first");
    top.press("x");
    top.shows("sorted by priority");
    for order in ["waiting", "oldest", "done/s", "priority"] {
        top.press("s");
        top.shows(&format!("sorted by {order}"));
    }
    top.press("p");
    top.shows("pause HIGH? y yes");
    top.press("n");
    top.shows("q quit");
    let paused = || place.run(&["queues", "--json"]).ok().json()["items"][0]["paused"] == true;
    assert!(!paused());
    top.press("p");
    top.shows("pause HIGH? y yes");
    top.press("y");
    top.shows("HIGH paused");
    assert!(paused());
    let drawn = top.quit();
    assert!(drawn.contains(FOREGROUND));
    assert!(drawn.contains("\u{1b}[?1049l") && drawn.contains("\u{1b}[?25h"), "the terminal is as it was");
    drop(server);
}

#[test]
fn a_small_terminal_without_colours_works() {
    let place = Place::new();
    let many = "{\"kind\":\"NOOP\",\"payload\":{}}\n".repeat(10_001);
    place.pipe(&["enqueue", "--bulk", "-"], &many).ok();
    let mut top = Terminal::open(&place, 12, 40, &[("NO_COLOR", "1")]);
    for whole in ["HIGH", "waiting running", " 10000+ ", "10000+ waiting", "q quit"] {
        top.shows(whole);
    }
    top.press("?");
    top.shows("q Ctrl-C  quit");
    top.shows("by minute completed, newest right");
    top.press("x");
    let drawn = top.quit();
    assert!(!drawn.contains(FOREGROUND), "{drawn:?}");
}

/// A job that was enqueued first and failed last is listed first.
#[test]
fn the_latest_failure_comes_first() {
    let place = Place::new();
    let late = ["enqueue", "FAIL", "--payload", "{\"times\": 9}", "--max-attempts", "1", "--in", "2s"];
    let first = place.run(&[&late[..], &["--json"]].concat()).ok().json()["id"].as_str().unwrap().to_owned();
    place.run(&late[..6]).ok();
    let _worker = place.serve(&["worker"]);
    let begun = Instant::now();
    while place.count(&["--state", "dead_letter,failed"]) < 2 {
        assert!(begun.elapsed() < Duration::from_secs(30), "they do not fail");
    }
    let reading = place.run(&["top", "--json"]).ok().json();
    assert_eq!(reading["failures"][0]["id"].as_str(), Some(first.as_str()), "{reading}");
}
