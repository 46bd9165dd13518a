//! The service over a real store with a real worker; SQLite where the database makes no difference.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod place;
mod quality;
mod saves;
mod service;
