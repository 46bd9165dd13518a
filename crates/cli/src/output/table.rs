//! Plain tables for the terminal. Every cell is made visible before it is printed.

use super::{Output, visible};
use crate::failure::Failure;

pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

struct Column {
    title: &'static str,
    right: bool,
}

impl Table {
    /// A title that starts with `>` is a column of figures, set to the right.
    pub(crate) fn new(titles: &[&'static str]) -> Table {
        let column = |title: &&'static str| match title.strip_prefix('>') {
            Some(title) => Column { title, right: true },
            None => Column { title, right: false },
        };
        Table { columns: titles.iter().map(column).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| visible(cell)).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn print(&self, output: &Output) -> Result<(), Failure> {
        let width = |n: usize, column: &Column| {
            let cells = self.rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.chars().count());
            cells.chain([column.title.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> =
            self.columns.iter().enumerate().map(|(n, column)| width(n, column)).collect();
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.to_owned()).collect();
        let mut text = self.render(&titles, &widths);
        if output.colour {
            text = format!("\x1b[1m{text}\x1b[0m");
        }
        for row in &self.rows {
            text.push('\n');
            text.push_str(&self.render(row, &widths));
        }
        output.line(text)
    }

    fn render(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(&self.columns).zip(widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            if column.right {
                line.push_str(&padding);
            }
            line.push_str(cell);
            if !column.right {
                line.push_str(&padding);
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}
