//! Reads, on their own connections and threads: in WAL mode they neither wait for the writer nor delay it.
//!
//! Owns: two connections. Each request is one short read transaction, so that its parts are consistent. Never keeps
//! a read transaction open between requests: that would stop the checkpointer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;
use windlass_core::StoreError;

use crate::error::{self, Answer};
use crate::{connect, error::from_sql};

const THREADS: usize = 2;

type Question = Box<dyn FnOnce(&Connection) + Send>;

pub(crate) struct Readers {
    questions: Mutex<Option<Sender<Question>>>,
    threads: Mutex<Vec<JoinHandle<Connection>>>,
}

impl Readers {
    pub(crate) fn start(path: &Path) -> Result<Readers, StoreError> {
        let (questions, inbox) = channel();
        let inbox = Arc::new(Mutex::new(inbox));
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let connection = connect::reading(path).map_err(|error| from_sql("open", error))?;
            let inbox = inbox.clone();
            let thread = thread::Builder::new()
                .name("windlass-reader".to_owned())
                .spawn(move || serve(connection, &inbox))
                .map_err(|error| error::other("open", error.to_string()))?;
            threads.push(thread);
        }
        Ok(Readers { questions: Mutex::new(Some(questions)), threads: Mutex::new(threads) })
    }

    pub(crate) async fn read<T, F>(&self, op: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Answer<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |connection| {
            let asked = catch_unwind(AssertUnwindSafe(|| -> Answer<T> {
                let transaction = connection.unchecked_transaction()?;
                let answer = work(connection)?;
                transaction.finish()?;
                Ok(answer)
            }));
            let answer = asked.unwrap_or_else(|_| Err(error::other(op, "the query panicked").into()));
            let _ = reply.send(answer.map_err(|fault| fault.named(op)));
        });
        let sender = self.questions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sender.ok_or_else(|| error::closed(op))?.send(question).map_err(|_| error::closed(op))?;
        answer.await.unwrap_or_else(|_| Err(error::closed(op)))
    }

    /// Answers pending requests, then ends the threads. The connections close one after the other. If two close at
    /// once, each takes the other for one that stays open, and neither checkpoints the log into the file.
    pub(crate) fn close(&self) {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).take();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            drop(thread.join());
        }
    }
}

fn serve(connection: Connection, inbox: &Mutex<Receiver<Question>>) -> Connection {
    loop {
        let question = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(question) = question else { return connection };
        question(&connection);
    }
}
