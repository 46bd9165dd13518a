//! The terminal for verbs of parts.

use serde_json::Value;
use windlass_pack::verb::{self, Console, VerbError};

use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::table::Table;
use crate::output::{Output, visible};

pub(crate) struct Terminal {
    pub(crate) output: Output,
}

fn into_verb_result(result: Result<(), Failure>) -> Result<(), VerbError> {
    result.map_err(|failure| match failure {
        Failure::Reported(report) => report.into_verb_error(),
        // A closed pipe is not a failure of the verb; the code ends it quietly.
        Failure::Pipe => VerbError { what: String::new(), why: String::new(), hint: None, code: 0 },
        Failure::Silent(code) => VerbError { what: String::new(), why: String::new(), hint: None, code },
    })
}

impl Console for Terminal {
    fn line(&self, text: &str) -> Result<(), VerbError> {
        into_verb_result(self.output.line(text.split('\n').map(visible).collect::<Vec<_>>().join("\n")))
    }

    fn note(&self, text: &str) {
        self.output.note(visible(text));
    }

    fn json(&self, value: &Value) -> Result<(), VerbError> {
        into_verb_result(self.output.json(value))
    }

    fn table(&self, titles: &[&'static str], rows: Vec<Vec<String>>) -> Result<(), VerbError> {
        let mut table = Table::new(titles);
        for row in rows {
            table.row(row);
        }
        into_verb_result(table.print(&self.output))
    }

    fn progress(&self, unit: &'static str, total: Option<u64>) -> Box<dyn verb::Progress> {
        Box::new(Bar(Some(Progress::new(self.output, unit, total.unwrap_or_default()))))
    }

    fn bytes(&self, unit: &'static str, total: Option<u64>) -> Box<dyn verb::Progress> {
        Box::new(Bar(Some(Progress::of_bytes(self.output, unit, total))))
    }
}

struct Bar(Option<Progress>);

impl verb::Progress for Bar {
    fn set(&mut self, done: u64) {
        if let Some(bar) = &mut self.0 {
            bar.set(done);
        }
    }

    fn finish(&mut self, done: u64) {
        if let Some(bar) = self.0.take() {
            bar.finish(done);
        }
    }
}
