//! A request as seen by a handler: validated against its route, with its body read.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use windlass_core::Invalid;
use windlass_core::audit::Actor;
use windlass_core::input::shown;

use crate::body::{Bodies, Lines, drain};
use crate::fields::{Fields, Unreadable};
use crate::principal::Principal;
use crate::problem::Problem;
use crate::route::{BodyOf, Media, Place, Route};
use crate::seat::Seat;

/// Longest `Prefer: wait=N`, in seconds.
const MAX_WAIT: u64 = 60;

pub struct Call {
    path: Vec<(String, String)>,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Vec<u8>,
    /// The body's share of the memory, while the handler runs.
    _share: Option<OwnedSemaphorePermit>,
    /// In a mutex because handlers share the call between threads, which a body that still arrives does not allow.
    lines: Mutex<Option<Lines>>,
    peer: Option<IpAddr>,
    principal: Principal,
    wrong: Invalid,
}

impl Call {
    /// Refuses what the route does not declare, or leaves that to the handler ([`Call::wrong`]). The router has already
    /// checked authorization.
    pub async fn read(
        route: &Route,
        request: Request<Body>,
        principal: Principal,
        bodies: &Bodies,
    ) -> Result<Call, Problem> {
        let (mut parts, mut body) = request.into_parts();
        let path = path(&mut parts).await?;
        let (query, wrong) = query(route, parts.uri.query().unwrap_or_default());
        if !wrong.problems.is_empty() && !route.answers_together() {
            return Err(Problem::parameter(wrong));
        }
        let seat = parts.extensions.get::<Arc<Seat>>().cloned();
        let (mut whole, mut share, mut lines) = (Vec::new(), None, None);
        if let Some(declared) = &route.body {
            check_body(&parts.headers, &mut body, declared).await?;
            match declared.media {
                Media::Json => (whole, share) = bodies.whole(body, declared.limit).await?,
                Media::Lines => lines = Some(bodies.lines(body, declared.limit, seat.clone())),
            }
        }
        let (peer, lines) = (seat.map(|seat| seat.peer()), Mutex::new(lines));
        Ok(Call {
            path,
            query,
            headers: parts.headers,
            body: whole,
            _share: share,
            lines,
            peer,
            principal,
            wrong,
        })
    }

    /// Parameters that the route does not know or that were given twice. A changing route that opts in
    /// ([`Route::reports_all_mistakes`]) reports them together with its own problems, before it changes anything.
    pub fn wrong(&self) -> Invalid {
        self.wrong.clone()
    }

    /// Sets a path parameter that is a fixed segment of the served path.
    pub fn fill(&mut self, name: &str, value: &str) {
        self.path.push((name.to_owned(), value.to_owned()));
    }

    /// A path parameter.
    pub fn path(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn queries<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Also `None` if the value is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The lines of the body, once, on a route with [`Route::lines`].
    pub fn lines(&mut self) -> Result<Lines, Problem> {
        let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        lines.ok_or_else(|| Problem::internal("a body has no lines", "not a route of lines"))
    }

    /// The client's address; `None` for a call within this process.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The caller, for the audit.
    pub fn actor(&self) -> &Actor {
        self.principal.actor()
    }

    /// The body as an object whose fields are read one by one.
    pub fn object(&self) -> Result<Fields<'_>, Problem> {
        Fields::read(&self.body, "").map_err(|error| match error {
            Unreadable::Syntax(error) => Problem::syntax(&error),
            Unreadable::NotAnObject(sort) => {
                Problem::invalid(Invalid::one("body", format!("must be an object, not {sort}")))
            }
        })
    }

    /// `Idempotency-Key`.
    pub fn idempotency_key(&self) -> Result<Option<&str>, Problem> {
        self.read_key().map_err(Problem::parameter)
    }

    /// For a call that reports other mistakes together with this one.
    pub fn read_key(&self) -> Result<Option<&str>, Invalid> {
        match (self.headers.contains_key("idempotency-key"), self.header("idempotency-key")) {
            (false, _) => Ok(None),
            (true, Some(key)) => Ok(Some(key)),
            (true, None) => Err(Invalid::one("Idempotency-Key", "must be visible ASCII")),
        }
    }

    /// `Prefer: wait=N`; other preferences are ignored.
    pub fn wait(&self) -> Result<Option<Duration>, Problem> {
        self.read_wait().map_err(Problem::parameter)
    }

    /// For a call that reports other mistakes together with this one.
    pub fn read_wait(&self) -> Result<Option<Duration>, Invalid> {
        let preferences = self.header("prefer").unwrap_or_default().split([',', ';']);
        let Some(text) = preferences.filter_map(|one| one.trim().strip_prefix("wait=")).next() else {
            return Ok(None);
        };
        match text.trim().parse::<u64>() {
            Ok(seconds) if seconds <= MAX_WAIT => Ok(Some(Duration::from_secs(seconds))),
            _ => {
                let rule = format!("wait must be 0 to {MAX_WAIT} seconds, not `{}`", shown(text));
                Err(Invalid::one("Prefer", rule))
            }
        }
    }
}

async fn path(parts: &mut Parts) -> Result<Vec<(String, String)>, Problem> {
    let raw = RawPathParams::from_request_parts(parts, &()).await;
    let raw = raw.map_err(|_| Problem::not_found("the path is not UTF-8"))?;
    if let Some((name, _)) = raw.iter().find(|(_, value)| value.contains('\0')) {
        return Err(Problem::parameter(Invalid::one(name, "must not contain NUL (%00)")));
    }
    Ok(raw.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// An ignored parameter would usually be a typo that silently matches everything.
fn query(route: &Route, text: &str) -> (Vec<(String, String)>, Invalid) {
    let mut pairs: Vec<(String, String)> = form_urlencoded::parse(text.as_bytes()).into_owned().collect();
    let mut invalid = Invalid::default();
    if !route.is_strict() {
        return (pairs, invalid);
    }
    let known =
        |name: &str| route.parameters.iter().find(|known| known.place == Place::Query && known.name == name);
    for (n, (name, _)) in pairs.iter().enumerate() {
        match known(name) {
            None => invalid.add(shown(name), unknown(route)),
            Some(known) if !known.many && pairs[..n].iter().any(|(before, _)| before == name) => {
                invalid.add(name.clone(), "is given twice");
            }
            Some(_) => {}
        }
    }
    // Handlers never see a NUL, because Postgres cannot store one.
    for (name, _) in pairs.extract_if(.., |(_, value)| value.contains('\0')) {
        invalid.add(shown(&name), "must not contain NUL (%00)");
    }
    (pairs, invalid)
}

fn unknown(route: &Route) -> String {
    let known = route.parameters.iter().filter(|known| known.place == Place::Query);
    match known.map(|known| known.name).collect::<Vec<_>>().as_slice() {
        [] => "is not a parameter here; this route takes none".to_owned(),
        known => format!("is not a parameter here; known: {}", known.join(", ")),
    }
}

/// What the headers say about the body.
async fn check_body(headers: &HeaderMap, body: &mut Body, declared: &BodyOf) -> Result<(), Problem> {
    let limit = declared.limit;
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // This also keeps foreign web pages from writing: a browser asks for permission before it sends JSON to another
    // origin.
    if !fits(kind, declared.media) {
        let given = if kind.is_empty() { "nothing".to_owned() } else { format!("`{}`", shown(kind)) };
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "The body has an unsupported content type",
            format!("Content-Type says {given}; send `Content-Type: {}`", declared.media.name()),
        ));
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) {
        drain(body).await;
        return Err(Problem::too_large(limit));
    }
    Ok(())
}

fn fits(content_type: &str, media: Media) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json =
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    match media {
        Media::Json => json,
        Media::Lines => {
            ["application/x-ndjson", "application/ndjson", "application/jsonl"].contains(&essence.as_str())
        }
    }
}
