//! Draws the screen. Stored text is made visible first. Colours are optional and never the only indication.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState};
use unicode_width::UnicodeWidthStr;
use windlass_core::duration;

use super::reading::{QueueLine, Reading, WorkerLine};
use super::screen::Screen;
use crate::output::{short, visible};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const KEYS: &str = "q quit  ↑↓ select  p pause/resume  s sort  ? help";
const FEW_KEYS: &str = "q quit  ? help";
/// Keys first; no line is wider than a terminal of 40 columns.
const HELP: [&str; 13] = [
    "q Ctrl-C  quit",
    "↑ ↓ j k   select a queue",
    "p         pause or resume; asks first",
    "s         next order of the queues",
    "?         help; any key closes it",
    "",
    "waiting   due, counted up to 10000",
    "running   leased",
    "of        slots of all workers",
    "oldest    how long one has been due",
    "P95       95 % took so long (1 hour)",
    "done/s    completed, last seconds",
    "by minute completed, newest right",
];

/// Whether colours are used.
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
    frame.render_widget(headline(reading, area.width, palette), head);
    draw_queues(frame, of_queues, screen, reading, palette);
    draw_workers(frame, of_workers, reading, palette);
    draw_failures(frame, of_failures, reading, palette);
    frame.render_widget(footline(screen, area.width, palette), foot);
    if screen.help {
        draw_help(frame, area, palette);
    }
}

/// Lines for queues and workers, including titles. If there is little room, queues come first; the rest is for
/// failures.
fn heights(height: u16, queues: usize, workers: usize) -> [u16; 2] {
    let lines = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX);
    let room = height.saturating_sub(2);
    let all = lines(queues).saturating_add(2);
    // A large enough screen keeps a title and two lines for each of the others.
    let of_queues = if room >= 12 { all.min(room - 6) } else { all.min(room) };
    let left = room - of_queues;
    let of_workers = lines(workers.max(1)).saturating_add(1).min(left.saturating_sub(3).max(left.min(2)));
    [of_queues, of_workers]
}

/// As many figures as fit completely.
fn headline(reading: &Reading, width: u16, palette: Palette) -> Line<'static> {
    const NAME: &str = "windlass";
    let sum = |of: fn(&QueueLine) -> u64| reading.queues.iter().map(of).fold(0, u64::saturating_add);
    let rate: f64 = reading.queues.iter().map(|queue| queue.completed_per_s).sum();
    let capped = if reading.queues.iter().any(QueueLine::is_capped) { "+" } else { "" };
    let figures = [
        format!("  {}{capped} waiting", sum(|queue| queue.depth)),
        format!("  {} running", sum(|queue| queue.running)),
        format!("  {rate:.1} done/s"),
        format!("  {} alive", crate::output::plural(reading.workers.len() as u64, "worker")),
        format!("  {}", reading.at.to_string().get(11..19).unwrap_or_default()),
    ];
    let mut left = usize::from(width).saturating_sub(NAME.len());
    let mut spans = vec![Span::styled(NAME, palette.title())];
    for figure in figures {
        let Some(rest) = left.checked_sub(figure.chars().count()) else { break };
        left = rest;
        spans.push(Span::raw(figure));
    }
    Line::from(spans)
}

fn footline(screen: &Screen, width: u16, palette: Palette) -> Line<'static> {
    let strong = palette.of(Color::Yellow).add_modifier(Modifier::BOLD);
    if let Some((queue, paused)) = &screen.asked {
        let word = if *paused { "pause" } else { "resume" };
        return Line::styled(format!("{word} {}? y yes, any other key no", visible(queue)), strong);
    }
    if let Some(message) = &screen.message {
        return Line::styled(visible(message), strong);
    }
    let keys = if usize::from(width) < KEYS.chars().count() { FEW_KEYS } else { KEYS };
    Line::styled(format!("{keys}  (sorted by {})", screen.sort.name()), palette.dim())
}

fn block(title: &str, palette: Palette) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(palette.dim())
        .title(Span::styled(format!(" {title} "), palette.title()))
}

/// A column of the queue table, most important first. One that does not fit completely is left out.
struct Column {
    title: &'static str,
    width: u16,
    right: bool,
    text: fn(&QueueLine) -> String,
}

const fn figures(title: &'static str, width: u16, text: fn(&QueueLine) -> String) -> Column {
    Column { title, width, right: true, text }
}

/// Dropped from the end if there is no room; shown in the order of [`PLACES`].
const COLUMNS: [Column; 9] = [
    figures("waiting", 7, QueueLine::shown_depth),
    figures("running", 7, |queue| queue.running.to_string()),
    Column { title: "state", width: 6, right: false, text: |queue| queue.state().to_owned() },
    figures("done/s", 7, |queue| rate(queue.completed_per_s)),
    figures("oldest", 7, |queue| time(queue.oldest())),
    figures("P95", 7, |queue| time(queue.p95())),
    figures("SLA", 5, |queue| time(queue.sla())),
    figures("of", 5, |queue| queue.slots.map_or("-".to_owned(), |slots| slots.to_string())),
    figures("of all", 6, |queue| queue.global_concurrency.map_or("-".to_owned(), |most| most.to_string())),
];

/// The columns from left to right.
const PLACES: [&str; 9] = ["state", "waiting", "running", "of", "of all", "oldest", "P95", "SLA", "done/s"];

/// A narrower chart is useless.
const MIN_PLOT: u16 = 10;
/// This many columns take precedence over the chart.
const BEFORE_THE_PLOT: usize = 7;

/// The columns that fit beside a name of this width, from left to right, and the room left for the chart.
fn fitting(width: u16, name: u16) -> (Vec<&'static Column>, u16) {
    let mut left = width.saturating_sub(name);
    let mut kept: Vec<&'static Column> = Vec::new();
    for (n, column) in COLUMNS.iter().enumerate() {
        let needed = column.width + 1 + if n < BEFORE_THE_PLOT { 0 } else { MIN_PLOT + 1 };
        if left < needed {
            break;
        }
        left -= column.width + 1;
        kept.push(column);
    }
    kept.sort_by_key(|column| PLACES.iter().position(|title| *title == column.title));
    let plot = left.saturating_sub(1);
    (kept, if plot >= MIN_PLOT { plot } else { 0 })
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, screen: &Screen, reading: &Reading, palette: Palette) {
    let name = reading.queues.iter().map(|queue| queue.name.width()).max().unwrap_or(5);
    let name = u16::try_from(name.clamp(5, 24)).unwrap_or(24).min(area.width / 3);
    let (columns, plot) = fitting(area.width, name);
    let mut widths = vec![Constraint::Length(name)];
    widths.extend(columns.iter().map(|column| Constraint::Length(column.width)));
    let mut header = vec![cell("queue".to_owned(), false)];
    header.extend(columns.iter().map(|column| cell(column.title.to_owned(), column.right)));
    if plot > 0 {
        widths.push(Constraint::Length(plot));
        header.push(cell("by minute".to_owned(), false));
    }
    let header = Row::new(header).style(palette.dim());
    let rows = reading.queues.iter().map(|queue| queue_row(queue, &columns, (name, plot), palette));
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    let table = Table::new(rows, widths)
        .header(header)
        .column_spacing(1)
        .row_highlight_style(chosen)
        .block(block("queues", palette));
    let mut state = TableState::new().with_selected(screen.position());
    frame.render_stateful_widget(table, area, &mut state);
}

fn cell(text: String, right: bool) -> Cell<'static> {
    let alignment = if right { Alignment::Right } else { Alignment::Left };
    Cell::new(Line::from(text).alignment(alignment))
}

fn time(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), duration::rough)
}

fn queue_row(
    queue: &QueueLine,
    columns: &[&'static Column],
    (name, plot): (u16, u16),
    palette: Palette,
) -> Row<'static> {
    let mut cells = vec![cell(short(&visible(&queue.name), usize::from(name)), false)];
    cells.extend(columns.iter().map(|column| cell((column.text)(queue), column.right)));
    if plot > 0 {
        cells.push(cell(spark(&queue.completed_by_minute, usize::from(plot)), false));
    }
    let style = match queue.state() {
        "paused" => palette.of(Color::Yellow),
        "late" => palette.of(Color::Red),
        "works" => palette.of(Color::Green),
        _ => Style::new(),
    };
    Row::new(cells).style(style)
}

fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

/// Newest on the right, scaled to the highest value.
fn spark(values: &[u64], width: usize) -> String {
    let values = &values[values.len().saturating_sub(width)..];
    let most = values.iter().copied().max().unwrap_or(0);
    let bar = |value: &u64| match (*value, most) {
        (0, _) | (_, 0) => ' ',
        (value, most) => {
            BARS[usize::try_from(value.saturating_mul(8).div_ceil(most)).unwrap_or(8).clamp(1, 8) - 1]
        }
    };
    values.iter().map(bar).collect()
}

/// Width and text.
type WorkerPart = (u16, fn(&WorkerLine) -> String);

fn draw_workers(frame: &mut Frame<'_>, area: Rect, reading: &Reading, palette: Palette) {
    if reading.workers.is_empty() {
        let none = Paragraph::new("no worker is alive; `windlass serve` starts one")
            .style(palette.of(Color::Yellow));
        frame.render_widget(none.block(block("workers", palette)), area);
        return;
    }
    // Parts that do not fit completely are left out, the last first.
    let parts: [WorkerPart; 5] = [
        (22, |worker| short(&visible(&worker.process), 22)),
        (16, |worker| match worker.slots {
            0 => format!("{} running", worker.running),
            slots => format!("{} of {slots}", worker.running),
        }),
        (14, |worker| {
            format!("heard {} ago", duration::rough(Duration::from_secs(worker.heard_seconds as u64)))
        }),
        (9, |worker| format!("up {}", duration::rough(Duration::from_secs(worker.up_seconds as u64)))),
        (30, |worker| worker.permits()),
    ];
    let mut left = area.width;
    let shown = parts.iter().take_while(|(width, _)| {
        let fits = left.checked_sub(width + 1);
        left = fits.unwrap_or(left);
        fits.is_some()
    });
    let shown: Vec<_> = shown.collect();
    let rows = reading.workers.iter().map(|worker| {
        let kinds = worker.kinds.iter().map(|count| format!("{} ×{}", visible(&count.kind), count.jobs));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let cells = shown.iter().map(|(_, text)| text(worker)).chain([kinds]);
        Row::new(cells.collect::<Vec<_>>())
    });
    let mut widths: Vec<Constraint> = shown.iter().map(|(width, _)| Constraint::Length(*width)).collect();
    widths.push(Constraint::Fill(1));
    frame.render_widget(Table::new(rows, widths).column_spacing(1).block(block("workers", palette)), area);
}

fn draw_failures(frame: &mut Frame<'_>, area: Rect, reading: &Reading, palette: Palette) {
    if reading.failures.is_empty() {
        let none = Paragraph::new("none").style(palette.dim());
        frame.render_widget(none.block(block("failed for good", palette)), area);
        return;
    }
    // A truncated id is useless.
    let ids = if area.width >= 70 { 19 } else { 0 };
    let kinds = if area.width >= 70 { 20 } else { 12 };
    let rows = reading.failures.iter().map(|failure| {
        Row::new([
            format!("{} ago", duration::rough(Duration::from_secs(failure.ago_seconds as u64))),
            short(&visible(&failure.kind), usize::from(kinds)),
            if ids > 0 { visible(&failure.id) } else { String::new() },
            visible(&failure.error),
        ])
    });
    let widths =
        [Constraint::Length(10), Constraint::Max(kinds), Constraint::Length(ids), Constraint::Fill(1)];
    let table = Table::new(rows, widths).column_spacing(1).style(palette.of(Color::Red));
    frame.render_widget(table.block(block("failed for good", palette)), area);
}

/// With a frame if there is room.
fn draw_help(frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let framed = usize::from(area.height) >= HELP.len() + 2;
    let lines: Vec<Line<'_>> =
        HELP.iter().filter(|line| framed || !line.is_empty()).map(|line| Line::raw(*line)).collect();
    let height = u16::try_from(lines.len()).unwrap_or(16) + if framed { 2 } else { 0 };
    let (width, height) = (42.min(area.width), height.min(area.height));
    let middle =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, middle);
    let text = Paragraph::new(lines);
    let title = Span::styled(" windlass top ", palette.title());
    let text = if framed { text.block(Block::bordered().title(title)) } else { text };
    frame.render_widget(text, middle);
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

    /// At any width, a column is shown completely or not at all.
    #[test]
    fn columns_are_dropped_not_cut() {
        let titles =
            |width| -> Vec<&str> { fitting(width, 10).0.iter().map(|column| column.title).collect() };
        assert_eq!(titles(40), ["state", "waiting", "running"]);
        assert_eq!(titles(80), ["state", "waiting", "running", "of", "oldest", "P95", "SLA", "done/s"]);
        assert_eq!(titles(160).len(), COLUMNS.len());
        for width in 20..200 {
            let (columns, plot) = fitting(width, 10);
            let taken: u16 = columns.iter().map(|column| column.width + 1).sum();
            assert!(10 + taken + plot <= width, "{width}");
            assert!(columns.iter().all(|column| column.width as usize >= column.title.len()), "{width}");
        }
        assert!(fitting(160, 10).1 > 30);
    }

    #[test]
    fn the_help_fits_forty_columns_and_twelve_lines() {
        assert!(HELP.iter().all(|line| line.chars().count() <= 38), "a frame takes two");
        assert!(HELP.iter().filter(|line| !line.is_empty()).count() <= 12);
    }

    #[test]
    fn plots_end_with_now() {
        assert_eq!(spark(&[0, 1, 4, 8], 10), " ▁▄█");
        assert_eq!(spark(&[8, 0, 8], 2), " █");
        assert_eq!(spark(&[0, 0], 5), "  ");
        assert_eq!(spark(&[], 5), "");
    }
}
