//! From what the screen shows to characters. Stored text is made visible before it is drawn; colours only where they are
//! wanted, and never the only sign of anything.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState};
use windlass_core::duration;

use super::reading::{QueueLine, Reading};
use super::screen::Screen;
use crate::output::{short, visible};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const KEYS: &str = "q quit  ↑↓ select  p pause/resume  s sort  ? help";
const HELP: [&str; 13] = [
    "waiting   due jobs, counted up to 10000",
    "running   leased jobs",
    "oldest    how long the oldest due job has been due",
    "P95       due to finished, of 95 % of the last hour's jobs, at most",
    "done/s    completed, in this minute and the one before",
    "by minute completed in each of the last minutes, the newest to the right",
    "",
    "↑ ↓ j k   select a queue",
    "p         pause the selected queue, or let it go on; asks first",
    "s         sort by priority, waiting, oldest, done/s",
    "?         this help; any key closes it",
    "q, Ctrl-C quit",
    "",
];

/// Which colours there are.
#[derive(Clone, Copy)]
pub(super) struct Palette {
    pub(super) colour: bool,
}

impl Palette {
    fn of(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn title(self) -> Style {
        self.of(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn dim(self) -> Style {
        self.of(Color::DarkGray)
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen, palette: Palette) {
    let area = frame.area();
    let Some(reading) = &screen.reading else {
        frame.render_widget(Paragraph::new("reading…"), area);
        return;
    };
    let [queues, workers] = heights(area.height, reading.queues.len(), reading.workers.len());
    let [head, of_queues, of_workers, of_failures, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(queues),
        Constraint::Length(workers),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(headline(reading, palette), head);
    draw_queues(frame, of_queues, screen, reading, palette);
    draw_workers(frame, of_workers, reading, palette);
    draw_failures(frame, of_failures, reading, palette);
    frame.render_widget(footline(screen, palette), foot);
    if screen.help {
        draw_help(frame, area, palette);
    }
}

/// Lines for queues and workers, each with its title. Queues come first where there is little room; what is left is for
/// failures.
fn heights(height: u16, queues: usize, workers: usize) -> [u16; 2] {
    let lines = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX);
    let room = height.saturating_sub(2);
    let all = lines(queues).saturating_add(2);
    // The rest of a screen that is large enough keeps a title and two lines for each of the others.
    let of_queues = if room >= 12 { all.min(room - 6) } else { all.min(room) };
    let left = room - of_queues;
    let of_workers = lines(workers.max(1)).saturating_add(1).min(left.saturating_sub(3).max(left.min(2)));
    [of_queues, of_workers]
}

fn headline(reading: &Reading, palette: Palette) -> Line<'static> {
    let sum = |of: fn(&QueueLine) -> u64| reading.queues.iter().map(of).sum::<u64>();
    let rate: f64 = reading.queues.iter().map(|queue| queue.completed_per_s).sum();
    let figures = format!(
        "  {} waiting  {} running  {rate:.1} done/s  {} alive",
        sum(|queue| queue.depth),
        sum(|queue| queue.running),
        crate::output::plural(reading.workers.len() as u64, "worker")
    );
    Line::from(vec![
        Span::styled("windlass", palette.title()),
        Span::raw(figures),
        Span::styled(format!("  {}", reading.at.get(11..19).unwrap_or_default()), palette.dim()),
    ])
}

fn footline(screen: &Screen, palette: Palette) -> Line<'static> {
    let strong = palette.of(Color::Yellow).add_modifier(Modifier::BOLD);
    if let Some((queue, paused)) = &screen.asked {
        let word = if *paused { "pause" } else { "resume" };
        return Line::styled(format!("{word} {}? y yes, any other key no", visible(queue)), strong);
    }
    if let Some(said) = &screen.said {
        return Line::styled(visible(said), strong);
    }
    Line::styled(format!("{KEYS}  (sorted by {})", screen.sort.name()), palette.dim())
}

fn block(title: &str, palette: Palette) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(palette.dim())
        .title(Span::styled(format!(" {title} "), palette.title()))
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, screen: &Screen, reading: &Reading, palette: Palette) {
    let name = reading.queues.iter().map(|queue| queue.name.chars().count()).max().unwrap_or(5);
    let name = u16::try_from(name.clamp(5, 24)).unwrap_or(24);
    let widths = [
        Constraint::Length(name),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(5),
        Constraint::Length(7),
        Constraint::Fill(1),
    ];
    let titles = ["queue", "state", "waiting", "running", "oldest", "P95", "SLA", "done/s", "by minute"];
    let header = titles.iter().enumerate().map(|(n, title)| figure(n, (*title).to_owned()));
    let header = Row::new(header).style(palette.dim());
    let left = area.width.saturating_sub(name + 7 * 6 + 5 + 8);
    let rows = reading.queues.iter().map(|queue| queue_row(queue, usize::from(left), palette));
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    let table = Table::new(rows, widths)
        .header(header)
        .column_spacing(1)
        .row_highlight_style(chosen)
        .block(block("queues", palette));
    let mut state = TableState::new().with_selected(screen.position());
    frame.render_stateful_widget(table, area, &mut state);
}

/// Columns from the third to the last but one are figures, set to the right.
fn figure(column: usize, text: String) -> Cell<'static> {
    let alignment = if (2..8).contains(&column) { Alignment::Right } else { Alignment::Left };
    Cell::new(Line::from(text).alignment(alignment))
}

fn queue_row(queue: &QueueLine, left: usize, palette: Palette) -> Row<'static> {
    let time = |time: Option<Duration>| time.map_or("-".to_owned(), brief);
    let cells = [
        visible(&queue.name),
        queue.state().to_owned(),
        queue.shown_depth(),
        queue.running.to_string(),
        time(queue.oldest()),
        time(queue.p95()),
        time(queue.sla()),
        rate(queue.completed_per_s),
        spark(&queue.completed_by_minute, left),
    ];
    let style = match queue.state() {
        "paused" => palette.of(Color::Yellow),
        "late" => palette.of(Color::Red),
        "works" => palette.of(Color::Green),
        _ => Style::new(),
    };
    Row::new(cells.into_iter().enumerate().map(|(n, text)| figure(n, text))).style(style)
}

fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

/// Two units at most: `1h30m`, never `1h30m12s`.
fn brief(time: Duration) -> String {
    let seconds = time.as_secs();
    let rounded = match seconds {
        0..=59 => time,
        60..=3_599 => Duration::from_secs(seconds),
        3_600..=86_399 => Duration::from_secs(seconds - seconds % 60),
        _ => Duration::from_secs(seconds - seconds % 3_600),
    };
    duration::format(rounded)
}

/// The newest at the right end, as high as its share of the highest.
fn spark(values: &[u64], width: usize) -> String {
    let values = &values[values.len().saturating_sub(width)..];
    let most = values.iter().copied().max().unwrap_or(0);
    let bar = |value: &u64| match (*value, most) {
        (0, _) | (_, 0) => ' ',
        (value, most) => BARS[usize::try_from((value * 8).div_ceil(most)).unwrap_or(8).clamp(1, 8) - 1],
    };
    values.iter().map(bar).collect()
}

fn draw_workers(frame: &mut Frame<'_>, area: Rect, reading: &Reading, palette: Palette) {
    if reading.workers.is_empty() {
        let none = Paragraph::new("no worker is alive; `windlass serve` starts one")
            .style(palette.of(Color::Yellow));
        frame.render_widget(none.block(block("workers", palette)), area);
        return;
    }
    let rows = reading.workers.iter().map(|worker| {
        let kinds = worker.kinds.iter().map(|count| format!("{} ×{}", visible(&count.kind), count.jobs));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        Row::new([
            visible(&worker.process),
            format!("{} running", worker.running),
            format!("up {}", brief(Duration::from_secs(worker.up_seconds as u64))),
            format!("heard {} ago", brief(Duration::from_secs(worker.heard_seconds as u64))),
            kinds,
        ])
    });
    let widths = [
        Constraint::Max(22),
        Constraint::Length(13),
        Constraint::Length(9),
        Constraint::Length(14),
        Constraint::Fill(1),
    ];
    frame.render_widget(Table::new(rows, widths).column_spacing(1).block(block("workers", palette)), area);
}

fn draw_failures(frame: &mut Frame<'_>, area: Rect, reading: &Reading, palette: Palette) {
    if reading.failures.is_empty() {
        let none = Paragraph::new("none").style(palette.dim());
        frame.render_widget(none.block(block("failed for good", palette)), area);
        return;
    }
    let rows = reading.failures.iter().map(|failure| {
        Row::new([
            format!("{} ago", brief(Duration::from_secs(failure.ago_seconds as u64))),
            short(&visible(&failure.kind), 20),
            failure.id.clone(),
            visible(&failure.error),
        ])
    });
    let widths = [Constraint::Length(10), Constraint::Max(20), Constraint::Length(19), Constraint::Fill(1)];
    let table = Table::new(rows, widths).column_spacing(1).style(palette.of(Color::Red));
    frame.render_widget(table.block(block("failed for good", palette)), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let height = u16::try_from(HELP.len() + 2).unwrap_or(16).min(area.height);
    let width = 76.min(area.width);
    let middle =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, middle);
    let text: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(*line)).collect();
    let title = Span::styled(" windlass top ", palette.title());
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(title)), middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_come_first_where_there_is_little_room() {
        assert_eq!(heights(24, 7, 1), [9, 2]);
        assert_eq!(heights(50, 7, 40), [9, 36]);
        assert_eq!(heights(24, 40, 9), [16, 3]);
        assert_eq!(heights(8, 7, 1), [6, 0]);
        assert_eq!(heights(1, 7, 1), [0, 0]);
    }

    #[test]
    fn plots_end_with_now() {
        assert_eq!(spark(&[0, 1, 4, 8], 10), " ▁▄█");
        assert_eq!(spark(&[8, 0, 8], 2), " █");
        assert_eq!(spark(&[0, 0], 5), "  ");
        assert_eq!(spark(&[], 5), "");
    }

    #[test]
    fn ages_are_short() {
        let said = |seconds| brief(Duration::from_secs(seconds));
        assert_eq!([said(5), said(65), said(5_425), said(90_061)], ["5s", "1m5s", "1h30m", "1d1h"]);
    }
}
