//! How far long work is: a bar on a terminal, a plain line now and then elsewhere. Always on stderr, so that the
//! answer on stdout stays clean.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::Output;

const BETWEEN_LINES: Duration = Duration::from_secs(2);

pub(crate) struct Progress {
    bar: ProgressBar,
    plain: Option<Plain>,
}

struct Plain {
    output: Output,
    what: &'static str,
    total: u64,
    said: Instant,
    /// What the last line said; work that is over at once needs no line.
    spoken: Option<u64>,
}

impl Progress {
    pub(crate) fn new(output: Output, what: &'static str, total: u64) -> Progress {
        if !output.bars {
            let plain = Plain { output, what, total, said: Instant::now(), spoken: None };
            return Progress { bar: ProgressBar::hidden(), plain: Some(plain) };
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let template = "{msg} {wide_bar} {pos}/{len} · {rate} · {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                // A bar that cannot be drawn is no reason to stop the work.
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
            && (plain.said.elapsed() >= BETWEEN_LINES)
        {
            plain.said = Instant::now();
            plain.spoken = Some(done);
            plain.output.note(format_args!("{}: {done} of {}", plain.what, plain.total));
        }
    }

    pub(crate) fn finish(mut self, done: u64) {
        self.bar.finish_and_clear();
        if let Some(plain) = self.plain.take().filter(|plain| plain.spoken.is_some_and(|said| said < done)) {
            plain.output.note(format_args!("{}: {done} of {}", plain.what, plain.total));
        }
    }
}
