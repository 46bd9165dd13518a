//! Plain tables for the terminal. Every cell is made visible before it is printed.

use unicode_width::UnicodeWidthStr;

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
    /// A title that starts with `>` is a right-aligned column.
    pub(crate) fn new(titles: &[&'static str]) -> Table {
        let column = |title: &&'static str| match title.strip_prefix('>') {
            Some(title) => Column { title, right: true },
            None => Column { title, right: false },
        };
        Table { columns: titles.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Titles, and whether the column is right-aligned.
    pub(crate) fn of(columns: impl Iterator<Item = (&'static str, bool)>) -> Table {
        let columns = columns.map(|(title, right)| Column { title, right }).collect();
        Table { columns, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| visible(cell)).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn print(&self, output: &Output) -> Result<(), Failure> {
        output.line(self.text(output.colour))
    }

    /// Widths are in terminal columns: a Chinese character or an emoji takes two, a combining accent none.
    fn text(&self, colour: bool) -> String {
        let width = |n: usize, column: &Column| {
            let cells = self.rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.width());
            cells.chain([column.title.width()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> =
            self.columns.iter().enumerate().map(|(n, column)| width(n, column)).collect();
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.to_owned()).collect();
        let mut text = self.render(&titles, &widths);
        if colour {
            text = format!("\x1b[1m{text}\x1b[0m");
        }
        for row in &self.rows {
            text.push('\n');
            text.push_str(&self.render(row, &widths));
        }
        text
    }

    fn render(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(&self.columns).zip(widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let padding = " ".repeat(width.saturating_sub(cell.width()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_for_any_script() {
        let mut table = Table::new(&["name", ">n", "state"]);
        for name in ["plain", "日本語", "🚀 up", "cafe\u{301}", "한글", "⚠\u{fe0f}!"] {
            table.row(vec![name.to_owned(), "7".to_owned(), "works".to_owned()]);
        }
        let wanted = "\
name    n  state
plain   7  works
日本語  7  works
🚀 up   7  works
cafe\u{301}    7  works
한글    7  works
⚠\u{fe0f}!     7  works";
        let drawn = table.text(false);
        assert_eq!(drawn, wanted, "\n{drawn}");
    }
}
