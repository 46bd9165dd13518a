//! Which requests are accepted.

use serde_json::json;
use windlass_core::Store;
use windlass_engine::Client;
use windlass_http::{Interface, Options, Server, ServerError};
use windlass_pack::Assembly;
use windlass_pack::settings::Settings;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

use crate::world::{World, options};

#[tokio::test]
async fn only_requests_to_a_loopback_name_are_accepted() {
    let world = World::new().await;
    let body = json!({ "kind": "NOOP" }).to_string();
    let port = world.address.port();
    for host in
        ["evil.example", "evil.example:8080", "192.168.0.7", "localhost.evil.example", "127.0.0.1.nip.io"]
    {
        for path in ["/", "/v1/jobs", "/metrics", "/nope"] {
            world.send("GET", path, &[("Host", host)], "").await.refuses(403, "host_not_allowed");
        }
        let headers = [("Host", host), ("Content-Type", "application/json")];
        world.send("POST", "/v1/jobs", &headers, &body).await.refuses(403, "host_not_allowed");
    }
    world.send("GET", "/v1/jobs", &[("Host", "")], "").await.refuses(403, "host_not_allowed");
    assert_eq!(world.count().await, 0);
    for host in [
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        "localhost".to_owned(),
        "[::1]:80".to_owned(),
    ] {
        world.send("GET", "/v1/jobs", &[("Host", &host)], "").await.is(200);
    }
    world.end().await;
}

#[tokio::test]
async fn requests_from_pages_of_other_sites_are_refused() {
    let world = World::new().await;
    let id = world.enqueue(json!({ "kind": "NOOP" })).await;
    let cancel = format!("/v1/jobs/{id}/cancel");
    for origin in ["https://evil.example", "http://localhost:1", "null"] {
        world.send("POST", &cancel, &[("Origin", origin)], "").await.refuses(403, "origin_not_allowed");
    }
    let embedded = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")];
    world.send("GET", "/v1/stream", &embedded, "").await.refuses(403, "origin_not_allowed");
    let followed = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")];
    assert_eq!(world.send("GET", "/", &followed, "").await.status, 200, "a link to the page works");
    let own = format!("http://{}", world.address);
    let reply = world.send("POST", &cancel, &[("Origin", &own)], "").await;
    reply.is(200);
    assert!(!reply.head.to_lowercase().contains("access-control"), "{}", reply.head);
    let preflight = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")];
    let reply = world.send("OPTIONS", "/v1/jobs", &preflight, "").await;
    assert!(reply.status >= 400 && !reply.head.to_lowercase().contains("access-control"), "{}", reply.head);
    world.end().await;
}

async fn bind(bind: &str) -> Result<Server, ServerError> {
    let folder = tempfile::tempdir().unwrap();
    let store =
        std::sync::Arc::new(SqliteStore::open(folder.path().join("x.db"), SqliteOptions::default()).unwrap());
    store.migrate_up(None).await.unwrap();
    let client = Client::open(store, &[], &[]).await.unwrap();
    let options = Options { bind: bind.parse().unwrap(), ..options() };
    let mut assembly = Assembly::new(&[], Settings::default(), Vec::new()).unwrap();
    Server::bind(options.clone(), Interface::new(&options, client, &mut assembly)?).await
}

#[tokio::test]
async fn an_address_others_can_reach_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.168.7.7:0", "[::ffff:10.0.0.1]:0"] {
        let error = bind(address).await.err().expect("refused");
        assert!(matches!(error, ServerError::Open { .. }), "{error}");
        assert!(error.remedy().contains("127.0.0.1"), "{}", error.remedy());
    }
}

#[tokio::test]
async fn a_port_in_use_is_reported() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = bind(&taken.local_addr().unwrap().to_string()).await.err().expect("refused");
    assert!(matches!(error, ServerError::InUse { .. }), "{error}");
    assert!(error.remedy().contains("--bind"), "{}", error.remedy());
}

/// A proxy and this server must never read a request in two ways.
#[tokio::test]
async fn ambiguous_requests_are_refused() {
    let world = World::new().await;
    let job = json!({ "kind": "NOOP" }).to_string();
    let json = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", job.len());
    let chunked = format!("{:x}\r\n{job}\r\n0\r\n\r\n", job.len());
    let port = world.address.port();
    for (line, headers, body, answer) in [
        ("GET /v1/jobs", "Host: localhost\r\nHost: localhost\r\n".to_owned(), "", "400"),
        ("GET /v1/jobs", "Host: localhost\r\nHost: evil.example\r\n".to_owned(), "", "400"),
        ("GET http://evil.example/v1/jobs", "Host: localhost\r\n".to_owned(), "", "400"),
        ("GET /nope", "Host: localhost\r\nHost: localhost\r\n".to_owned(), "", "400"),
        ("POST /v1/jobs", format!("Host: localhost\r\nContent-Encoding: gzip\r\n{json}"), &job, "415"),
        ("POST /v1/jobs", format!("Host: localhost\r\nContent-Encoding: identity\r\n{json}"), &job, "201"),
        (
            "POST /v1/jobs",
            "Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\n"
                .to_owned(),
            &chunked,
            "400",
        ),
        (&format!("GET http://localhost:{port}/v1/jobs"), format!("Host: localhost:{port}\r\n"), "", "200"),
    ] {
        let request = format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n{body}");
        let reply = crate::client::raw(world.address, &request).await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {answer}")), "{request}\n{reply}");
    }
    assert_eq!(world.count().await, 1);
    world.end().await;
}

#[tokio::test]
async fn hosts_that_the_operator_names_are_accepted_behind_a_proxy() {
    let options = Options {
        public_url: Some("https://Jobs.example/".to_owned()),
        allowed_hosts: vec!["inner.example".to_owned(), "port.example:81".to_owned()],
        ..options()
    };
    let world = World::with(options).await;
    for (host, origin, status) in [
        ("jobs.example", "https://jobs.example", 200),
        ("jobs.example", "", 200),
        ("jobs.example", "https://evil.example", 403),
        // A proxy that puts its own target into Host.
        ("127.0.0.1:8080", "https://jobs.example", 200),
        ("127.0.0.1:8080", "https://127.0.0.1:8080", 403),
        ("inner.example:9000", "http://inner.example:9000", 200),
        ("inner.example:9000", "https://inner.example:9000", 200),
        ("port.example:81", "", 200),
        ("port.example:82", "", 403),
        ("evil.example", "https://jobs.example", 403),
        ("jobs.example.evil.example", "", 403),
    ] {
        let reply = world.send("GET", "/v1/jobs", &[("Host", host), ("Origin", origin)], "").await;
        assert_eq!(reply.status, status, "{host} {origin}\n{}", reply.body);
    }
    world.end().await;
}
