//! Progress of long work: a bar on a terminal, an occasional line elsewhere. On stderr, so that stdout has only the
//! result.

use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::Output;

const BETWEEN_LINES: Duration = Duration::from_secs(2);

pub(crate) struct Progress {
    bar: ProgressBar,
    plain: Option<Plain>,
}

/// What is counted.
#[derive(Clone, Copy)]
enum Unit {
    Things,
    Bytes,
}

impl Unit {
    fn shown(self, n: u64) -> String {
        match self {
            Unit::Things => n.to_string(),
            Unit::Bytes => BinaryBytes(n).to_string(),
        }
    }
}

struct Plain {
    output: Output,
    what: &'static str,
    unit: Unit,
    /// `None` if it is not known in advance.
    total: Option<u64>,
    printed_at: Instant,
    /// What the last line reported; work that ends quickly prints none.
    printed: Option<u64>,
}

impl Plain {
    fn print(&self, done: u64) {
        let done = self.unit.shown(done);
        match self.total {
            Some(total) => {
                self.output.note(format_args!("{}: {done} of {}", self.what, self.unit.shown(total)))
            }
            None => self.output.note(format_args!("{}: {done}", self.what)),
        }
    }
}

impl Progress {
    pub(crate) fn new(output: Output, what: &'static str, total: u64) -> Progress {
        Progress::start(output, what, Unit::Things, Some(total))
    }

    /// Of a file's size, or of a stream of unknown length.
    pub(crate) fn of_bytes(output: Output, what: &'static str, total: Option<u64>) -> Progress {
        Progress::start(output, what, Unit::Bytes, total)
    }

    fn start(output: Output, what: &'static str, unit: Unit, total: Option<u64>) -> Progress {
        if !output.bars {
            let plain = Plain { output, what, unit, total, printed_at: Instant::now(), printed: None };
            return Progress { bar: ProgressBar::hidden(), plain: Some(plain) };
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = match (unit, total) {
            (Unit::Things, _) => "{msg} {wide_bar} {pos}/{len} · {rate} · {eta} left",
            (Unit::Bytes, Some(_)) => {
                "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} · {binary_bytes_per_sec} · {eta} left"
            }
            (Unit::Bytes, None) => "{msg} {spinner} {binary_bytes} · {binary_bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                // Failing to draw a bar must not stop the work.
                let _ = write!(text, "{:.0}/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate).progress_chars("█▉▊▋▌▍▎▏ "));
        }
        bar.set_message(what);
        Progress { bar, plain: None }
    }

    pub(crate) fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        if let Some(plain) = &mut self.plain
            && (plain.printed_at.elapsed() >= BETWEEN_LINES)
        {
            plain.printed_at = Instant::now();
            plain.printed = Some(done);
            plain.print(done);
        }
    }

    pub(crate) fn finish(mut self, done: u64) {
        self.bar.finish_and_clear();
        if let Some(plain) = self.plain.take().filter(|plain| plain.printed.is_some_and(|last| last < done)) {
            plain.print(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_mebibytes() {
        assert_eq!(Unit::Bytes.shown(5 << 20), "5.00 MiB");
        assert_eq!(Unit::Things.shown(5 << 20), "5242880");
    }
}
