//! A minimal HTTP client that controls exactly what goes over the wire.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    fn read(text: &str) -> Reply {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {} {}", self.head, self.body))
    }

    /// The body of a response with this status.
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// A problem with this status and code, with all fields of the schema.
    pub(crate) fn refuses(&self, status: u16, code: &str) -> Value {
        let problem = self.is(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.head);
        assert_eq!(
            (problem["status"].as_u64(), problem["code"].as_str()),
            (Some(status.into()), Some(code)),
            "{problem}"
        );
        for field in ["type", "title", "detail"] {
            assert!(!problem[field].as_str().unwrap().is_empty(), "{problem}");
        }
        problem
    }

    /// Refused because of these fields, each with a rule that contains the text.
    pub(crate) fn names(&self, expected: &[(&str, &str)]) {
        let problem = self.json();
        let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("no errors in {problem}"));
        let found: Vec<(&str, &str)> =
            errors.iter().map(|e| (e["field"].as_str().unwrap(), e["rule"].as_str().unwrap())).collect();
        for (field, rule) in expected {
            assert!(
                found.iter().any(|(f, r)| f == field && r.contains(rule)),
                "{field}: {rule} is not in {problem}"
            );
        }
        assert_eq!(found.len(), expected.len(), "{problem}");
    }
}

/// One request on its own connection.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    Reply::read(&raw(address, &format!("{head}\r\n{body}")).await)
}

/// Everything the server sends until it closes.
pub(crate) async fn raw(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(text.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}
