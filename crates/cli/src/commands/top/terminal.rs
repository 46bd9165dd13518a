//! The loop on a terminal: readings, keys and resizes, until the user quits. Restores the terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use windlass_pack::Method;
use windlass_pack::api::{ApiError, ApiRequest};

use super::super::Session;
use super::draw::{Palette, draw};
use super::reading::Reader;
use super::screen::{Key, Screen, Wish};
use crate::failure::{During, Failure};

/// How long quitting may wait for the thread that reads keys.
const LOOK: Duration = Duration::from_millis(100);

enum Input {
    Key(Key),
    Resized,
}

pub(super) async fn run(session: &Session, mut reader: Reader, every: Duration) -> Result<(), Failure> {
    let palette = Palette { colour: session.output.colour };
    let what = "cannot use the terminal";
    let mut screen = Screen::default();
    screen.show(reader.read().await?);
    let mut terminal = ratatui::try_init().during(what)?;
    let (keys, inputs) = Keys::listen();
    let shown = watch(&mut screen, &mut reader, every, inputs, |screen| {
        terminal.draw(|frame| draw(frame, screen, palette)).map(drop)
    });
    let ended = shown.await;
    drop(keys);
    ratatui::try_restore().during(what)?;
    ended
}

async fn watch(
    screen: &mut Screen,
    reader: &mut Reader,
    every: Duration,
    mut inputs: mpsc::Receiver<Input>,
    mut paint: impl FnMut(&Screen) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    loop {
        paint(screen).during("cannot draw")?;
        tokio::select! {
            _ = ticks.tick() => refresh(screen, reader).await,
            input = inputs.recv() => match input {
                None => return Ok(()),
                Some(Input::Resized) => {}
                Some(Input::Key(key)) => match screen.key(key) {
                    Wish::Nothing => {}
                    Wish::Quit => return Ok(()),
                    Wish::SetPaused { queue, paused } => {
                        let word = if paused { "paused" } else { "goes on" };
                        screen.message = Some(match set_paused(reader, &queue, paused).await {
                            Ok(()) => format!("{queue} {word}"),
                            Err(error) => error.to_string(),
                        });
                        refresh(screen, reader).await;
                    }
                },
            },
        }
    }
}

/// If the database does not respond, the last figures stay and an error is shown.
async fn refresh(screen: &mut Screen, reader: &mut Reader) {
    match reader.read().await {
        Ok(reading) => {
            if screen.message.as_ref().is_some_and(|message| message.starts_with(TROUBLE)) {
                screen.message = None;
            }
            screen.show(reading);
        }
        Err(failure) => screen.message = Some(format!("{TROUBLE}{}", failure.why())),
    }
}

const TROUBLE: &str = "no new figures: ";

async fn set_paused(reader: &Reader, queue: &str, paused: bool) -> Result<(), ApiError> {
    let request = ApiRequest::new(Method::PATCH, "/v1/queues/{name}", &[queue]);
    reader.api().call(request.json(&json!({ "paused": paused }))).await.map(drop)
}

/// Reads keys on its own thread until dropped.
struct Keys {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Keys {
    fn listen() -> (Keys, mpsc::Receiver<Input>) {
        let (send, inputs) = mpsc::channel(16);
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match event::poll(LOOK) {
                    Ok(false) => continue,
                    Ok(true) => {}
                    Err(_) => return,
                }
                let Ok(event) = event::read() else { return };
                if let Some(input) = input(&event)
                    && send.blocking_send(input).is_err()
                {
                    return;
                }
            }
        });
        (Keys { over, thread: Some(thread) }, inputs)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends within one poll; a panicked thread has nothing to report.
            let _ = thread.join();
        }
    }
}

fn input(event: &Event) -> Option<Input> {
    match event {
        Event::Resize(..) => Some(Input::Resized),
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            Some(Input::Key(match key.code {
                KeyCode::Char('c') if control => Key::Quit,
                KeyCode::Char('q') => Key::Quit,
                KeyCode::Char('p') => Key::Pause,
                KeyCode::Char('s') => Key::Sort,
                KeyCode::Char('?' | 'h') => Key::Help,
                KeyCode::Char('y' | 'Y') => Key::Yes,
                KeyCode::Up | KeyCode::Char('k') => Key::Up,
                KeyCode::Down | KeyCode::Char('j') => Key::Down,
                _ => Key::Other,
            }))
        }
        _ => None,
    }
}
