//! Measures `POST /v1/jobs` with 64 keep-alive connections, one request at a time on each, against a server on SQLite
//! in this process. Run it with `cargo run --release -p windlass-http --example load [-- SECONDS CONNECTIONS]`.

// A benchmark: unlike a server, it may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass::parts::{EnginePart, Tryout};
use windlass_core::Store;
use windlass_core::store::JobFilter;
use windlass_engine::Client;
use windlass_http::{Interface, Options, Server};
use windlass_pack::settings::Settings;
use windlass_pack::{Assembly, Pack};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

#[tokio::main]
async fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let seconds = arguments.first().copied().unwrap_or(10);
    let connections = arguments.get(1).copied().unwrap_or(64);
    let folder = tempfile::tempdir_in(".").unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("load.db"), SqliteOptions::default()).unwrap());
    store.migrate_up(None).await.unwrap();
    let packs: Vec<Arc<dyn Pack>> = vec![Arc::new(EnginePart::default()), Arc::new(Tryout::default())];
    let mut assembly = Assembly::new(&packs, Settings::default(), Vec::new()).unwrap();
    let client = Client::open(store.clone(), &assembly.queues(), &assembly.kinds()).await.unwrap();
    let options = Options { bind: "127.0.0.1:0".parse().unwrap(), ..Options::default() };
    let interface = Interface::new(&options, client, &mut assembly).unwrap();
    let server = Server::bind(options, interface).await.unwrap();
    let address = server.address();
    tokio::spawn(server.run(std::future::pending()));

    let deadline = Instant::now() + Duration::from_secs(seconds);
    let begun = Instant::now();
    let tasks: Vec<_> = (0..connections).map(|_| tokio::spawn(drive(address, deadline))).collect();
    let mut times = Histogram::<u64>::new(3).unwrap();
    for task in tasks {
        times.add(task.await.unwrap()).unwrap();
    }
    let took = begun.elapsed().as_secs_f64();
    let stored = store.count(&JobFilter::default()).await.unwrap();
    assert_eq!(stored, times.len(), "every answer is a row and every row was answered");
    let millis = |share| times.value_at_quantile(share) as f64 / 1_000.0;
    println!(
        "{{\"connections\":{connections},\"jobs\":{stored},\"per_s\":{:.0},\"p50_ms\":{:.2},\"p95_ms\":{:.2},\"p99_ms\":{:.2},\"max_ms\":{:.2}}}",
        stored as f64 / took,
        millis(0.5),
        millis(0.95),
        millis(0.99),
        millis(1.0)
    );
    store.close().await;
}

/// Returns microseconds per request, measured until the deadline.
async fn drive(address: std::net::SocketAddr, deadline: Instant) -> Histogram<u64> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let body = r#"{"kind":"NOOP","payload":{"order":4711,"total":"12.50","customer":"c-1"}}"#;
    let request = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut times = Histogram::new(3).unwrap();
    let mut buffer = vec![0; 16 * 1024];
    while Instant::now() < deadline {
        let begun = Instant::now();
        stream.write_all(request.as_bytes()).await.unwrap();
        read_answer(&mut stream, &mut buffer).await;
        times.record(u64::try_from(begun.elapsed().as_micros()).unwrap()).unwrap();
    }
    times
}

/// Reads one whole response, which must be a 201.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await.unwrap();
        assert!(read > 0, "the server closed");
        filled += read;
        let text = std::str::from_utf8(&buffer[..filled]).unwrap();
        assert!(text.len() < 12 || text.starts_with("HTTP/1.1 201"), "{text}");
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse::<usize>().unwrap() {
            return;
        }
    }
}
