//! Protects a server without API keys, and sets security headers.
//!
//! A server on a loopback address is open to this machine, but a web page from anywhere also runs on this machine. So a
//! request must name a loopback host: a foreign name that resolves to 127.0.0.1 is refused (DNS rebinding). A request
//! that a browser sends for another origin is refused too (CSRF). No CORS header is ever sent. Behind a proxy, the
//! names that the operator gives are allowed beside the loopback ones.
//!
//! Requests that a proxy and this server could read differently are refused before anything looks at them.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use windlass_core::input::shown;
use windlass_pack::Problem;

use crate::options::Options;

/// Nothing from other origins, and no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(crate) fn is_loopback(bind: &SocketAddr) -> bool {
    bind.ip().to_canonical().is_loopback()
}

/// For a server without keys on a loopback address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// Hosts beside the loopback ones; without a port, any port.
    hosts: Vec<String>,
    /// The origin of pages behind a proxy: `https://jobs.example`.
    public: Option<String>,
}

impl Guard {
    pub(crate) fn new(options: &Options) -> Guard {
        let public = options.public_url.as_ref().map(|url| url.trim_end_matches('/').to_ascii_lowercase());
        let named = public.as_deref().and_then(|origin| origin.split_once("://"));
        let mut hosts: Vec<String> =
            options.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        hosts.extend(named.map(|(_, host)| host.to_owned()));
        Guard { hosts, public }
    }

    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = one_host(uri, headers)?;
        if !is_local(host) && !self.names(host) {
            let detail = format!(
                "this server answers only to localhost and loopback addresses, not to `{}`; behind a proxy, name it in \
                 `server.public_url` or `server.allowed_hosts`",
                shown(host)
            );
            return Err(forbidden("host_not_allowed", detail));
        }
        match headers.get(ORIGIN).map(|value| value.to_str().unwrap_or("?")) {
            Some(origin) if !self.is_own(origin, host) => Err(forbidden(
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

    fn names(&self, host: &str) -> bool {
        let is = |known: &String| {
            known.eq_ignore_ascii_case(host) || known.eq_ignore_ascii_case(without_port(host))
        };
        self.hosts.iter().any(is)
    }

    /// A page of this server: by the host that the request names, or by the public one, because a proxy may replace the
    /// host. TLS ends at the proxy, so only a host from the configuration may have it.
    fn is_own(&self, origin: &str, host: &str) -> bool {
        origin.strip_prefix("http://") == Some(host)
            || (self.names(host) && origin.strip_prefix("https://") == Some(host))
            || self.public.as_deref().is_some_and(|public| public.eq_ignore_ascii_case(origin))
    }
}

/// The one host that a request names. Two of them, or another one in the request line, are a request that a proxy may
/// have let in for a different host than this server would see.
fn one_host<'a>(uri: &Uri, headers: &'a HeaderMap) -> Result<&'a str, Problem> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    if hosts.next().is_some() {
        return Err(ambiguous("there is more than one Host header".to_owned()));
    }
    match uri.authority() {
        Some(authority) if !authority.as_str().eq_ignore_ascii_case(host) => {
            let (named, host) = (shown(authority.as_str()), shown(host));
            Err(ambiguous(format!("the request line names `{named}` and the Host header `{host}`")))
        }
        _ => Ok(host),
    }
}

/// Codings that this server does not undo. Without this, compressed bytes would be read as JSON.
pub(crate) fn check_codings(headers: &HeaderMap) -> Result<(), Problem> {
    let said = |name: HeaderName| {
        let values = headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"));
        values.collect::<Vec<_>>().join(", ")
    };
    let transfer = said(TRANSFER_ENCODING);
    if !transfer.is_empty() && !transfer.eq_ignore_ascii_case("chunked") {
        return Err(ambiguous(format!(
            "Transfer-Encoding is `{}`; only `chunked` is read",
            shown(&transfer)
        )));
    }
    let content = said(CONTENT_ENCODING);
    if !content.is_empty() && !content.eq_ignore_ascii_case("identity") {
        let title = "The body has an unsupported content coding";
        let detail = format!("Content-Encoding is `{}`; send the body as it is", shown(&content));
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_coding", title, detail));
    }
    Ok(())
}

fn ambiguous(detail: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "ambiguous_request", "This request can be read in two ways", detail)
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
    let name = without_port(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
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
            Guard::default().check(&Uri::from_static("/"), &headers).is_ok()
        };
        assert!(with(None));
        assert!(with(Some("http://127.0.0.1:8080")));
        for origin in ["http://evil.example", "http://127.0.0.1:9090", "https://127.0.0.1:8080", "null"] {
            assert!(!with(Some(origin)), "{origin}");
        }
    }
}
