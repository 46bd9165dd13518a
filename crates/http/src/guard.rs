//! Protects a server without API keys, and sets security headers.
//!
//! A server on a loopback address is open to this machine, but a web page from anywhere also runs on this machine. So a
//! request must name a loopback host: a foreign name that resolves to 127.0.0.1 is refused (DNS rebinding). A request
//! that a browser sends for another origin is refused too (CSRF). No CORS header is ever sent.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use windlass_core::input::shown;
use windlass_pack::Problem;

/// Nothing from other origins, and no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(crate) fn is_loopback(bind: &SocketAddr) -> bool {
    bind.ip().to_canonical().is_loopback()
}

/// For a server without keys on a loopback address.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !is_local(host) {
        return Err(forbidden(
            "host_not_allowed",
            format!("this server answers only to localhost and loopback addresses, not to `{}`", shown(host)),
        ));
    }
    let origin = headers.get(ORIGIN).map(|value| value.to_str().unwrap_or("?"));
    match origin {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => Err(forbidden(
            "origin_not_allowed",
            format!("pages of `{}` may not use this server", shown(origin)),
        )),
        _ if is_embedded(headers) => {
            let detail = "pages of another site may link to this server, not load from it".to_owned();
            Err(forbidden("origin_not_allowed", detail))
        }
        _ => Ok(()),
    }
}

/// An image or script in another site's page. Browsers send no origin for it, but it could occupy a listener's slot.
fn is_embedded(headers: &HeaderMap) -> bool {
    let says = |name: &str, word: &str| headers.get(name).is_some_and(|value| value == word);
    says("sec-fetch-site", "cross-site") && !says("sec-fetch-mode", "navigate")
}

fn forbidden(code: &'static str, detail: String) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, code, "This request is not let in", detail)
}

/// `localhost`, `127.0.0.1` or `[::1]`, with or without a port.
fn is_local(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return is_loopback(&address);
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Assets may be revalidated; everything else must not be cached.
pub(crate) fn seal(response: &mut Response) {
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    put(X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(CONTENT_SECURITY_POLICY, POLICY);
    put(X_FRAME_OPTIONS, "DENY");
    put(REFERRER_POLICY, "no-referrer");
    put(CACHE_CONTROL, "no-store");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_local() {
        for host in
            ["localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1", "127.8.0.1:80", "[::1]", "[::1]:8080"]
        {
            assert!(is_local(host), "{host}");
        }
        let foreign = [
            "",
            "evil.example",
            "localhost.evil.example:8080",
            "10.0.0.1:8080",
            "127.0.0.1.evil.example",
            "[::2]:80",
            "localhost:",
            ":80",
        ];
        for host in foreign {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn a_foreign_page_is_refused() {
        let with = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("127.0.0.1:8080"));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            check(&headers).is_ok()
        };
        assert!(with(None));
        assert!(with(Some("http://127.0.0.1:8080")));
        for origin in ["http://evil.example", "http://127.0.0.1:9090", "https://127.0.0.1:8080", "null"] {
            assert!(!with(Some(origin)), "{origin}");
        }
    }
}
