//! What the screen shows and how keys change it. Pure: no drawing, no IO.

use std::cmp::Reverse;

use super::reading::{QueueLine, Reading};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    Pause,
    Sort,
    Help,
    Yes,
    /// Closes a question or the help.
    Other,
    Quit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Priority,
    Waiting,
    Oldest,
    Rate,
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Priority => "priority",
            Sort::Waiting => "waiting",
            Sort::Oldest => "oldest",
            Sort::Rate => "done/s",
        }
    }

    fn next(self) -> Sort {
        match self {
            Sort::Priority => Sort::Waiting,
            Sort::Waiting => Sort::Oldest,
            Sort::Oldest => Sort::Rate,
            Sort::Rate => Sort::Priority,
        }
    }
}

/// What to do after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// Pause or resume this queue.
    SetPaused {
        queue: String,
        paused: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) reading: Option<Reading>,
    pub(super) sort: Sort,
    /// By name, because rows move when sorted.
    pub(super) selected: Option<String>,
    pub(super) help: bool,
    /// The queue to pause or resume, until confirmed.
    pub(super) asked: Option<(String, bool)>,
    /// The last error, or what was done.
    pub(super) message: Option<String>,
}

impl Screen {
    pub(super) fn show(&mut self, mut reading: Reading) {
        let age = |queue: &QueueLine| queue.oldest_seconds.unwrap_or(-1.0);
        match self.sort {
            Sort::Priority => {}
            Sort::Waiting => reading.queues.sort_by_key(|queue| Reverse(queue.depth)),
            Sort::Oldest => reading.queues.sort_by(|a, b| age(b).total_cmp(&age(a))),
            Sort::Rate => reading.queues.sort_by(|a, b| b.completed_per_s.total_cmp(&a.completed_per_s)),
        }
        let there = |name: &String| reading.queues.iter().any(|queue| queue.name == *name);
        if !self.selected.as_ref().is_some_and(there) {
            self.selected = reading.queues.first().map(|queue| queue.name.clone());
        }
        self.reading = Some(reading);
    }

    fn queues(&self) -> &[QueueLine] {
        self.reading.as_ref().map_or(&[], |reading| &reading.queues)
    }

    pub(super) fn position(&self) -> Option<usize> {
        self.queues().iter().position(|queue| Some(&queue.name) == self.selected.as_ref())
    }

    pub(super) fn key(&mut self, key: Key) -> Wish {
        if let Some((queue, paused)) = self.asked.take() {
            return if key == Key::Yes { Wish::SetPaused { queue, paused } } else { Wish::Nothing };
        }
        if std::mem::take(&mut self.help) && key != Key::Quit {
            return Wish::Nothing;
        }
        match key {
            Key::Quit => return Wish::Quit,
            Key::Help => self.help = true,
            Key::Up => self.step(-1),
            Key::Down => self.step(1),
            Key::Sort => {
                self.sort = self.sort.next();
                if let Some(reading) = self.reading.take() {
                    self.show(reading);
                }
            }
            Key::Pause => {
                let selected = self.position().map(|at| &self.queues()[at]);
                self.asked = selected.map(|queue| (queue.name.clone(), !queue.paused));
            }
            Key::Yes | Key::Other => {}
        }
        Wish::Nothing
    }

    fn step(&mut self, by: isize) {
        let last = self.queues().len().saturating_sub(1);
        let at = self.position().unwrap_or(0).saturating_add_signed(by).min(last);
        self.selected = self.queues().get(at).map(|queue| queue.name.clone());
    }
}

/// A row for tests.
#[cfg(test)]
pub(super) fn queue(name: &str, depth: u64, paused: bool) -> QueueLine {
    QueueLine {
        name: name.to_owned(),
        paused,
        depth,
        running: 0,
        oldest_seconds: None,
        p95_seconds: None,
        sla_seconds: None,
        slots: None,
        global_concurrency: None,
        completed_per_s: 0.0,
        completed_by_minute: Vec::new(),
        completed_last_hour: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen() -> Screen {
        let queues = vec![queue("HIGH", 1, false), queue("LOW", 9, true), queue("BULK", 5, false)];
        let mut screen = Screen::default();
        screen.show(Reading {
            at: windlass_core::Time(0),
            queues,
            workers: Vec::new(),
            failures: Vec::new(),
        });
        screen
    }

    #[test]
    fn nothing_is_paused_without_confirmation() {
        let mut screen = screen();
        assert_eq!(screen.key(Key::Pause), Wish::Nothing);
        assert_eq!(screen.asked, Some(("HIGH".to_owned(), true)));
        assert_eq!(screen.key(Key::Quit), Wish::Nothing, "any other key means no");
        assert_eq!(screen.asked, None);
        screen.key(Key::Down);
        screen.key(Key::Pause);
        let wish = Wish::SetPaused { queue: "LOW".to_owned(), paused: false };
        assert_eq!(screen.key(Key::Yes), wish, "a paused queue is resumed");
    }

    #[test]
    fn the_selection_follows_its_queue() {
        let mut screen = screen();
        screen.key(Key::Up);
        assert_eq!(screen.position(), Some(0));
        screen.key(Key::Sort);
        assert_eq!((screen.sort, screen.position()), (Sort::Waiting, Some(2)), "HIGH has the fewest");
        screen.key(Key::Down);
        assert_eq!(screen.position(), Some(2), "there is no line below");
    }

    #[test]
    fn any_key_closes_the_help() {
        let mut screen = screen();
        screen.key(Key::Help);
        assert!(screen.help);
        assert_eq!(screen.key(Key::Down), Wish::Nothing);
        assert!(!screen.help && screen.position() == Some(0));
        screen.key(Key::Help);
        assert_eq!(screen.key(Key::Quit), Wish::Quit);
    }
}
