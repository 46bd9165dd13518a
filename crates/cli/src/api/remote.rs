//! The routes of a remote server.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use windlass_pack::api::{Api, ApiAnswer, ApiError, ApiRequest};

use super::Remote;
use crate::failure::Failure;

const CONNECT: Duration = Duration::from_secs(10);
/// A route may wait a minute for a job; a bulk action may take longer.
const ANSWER: Duration = Duration::from_secs(600);

pub(super) struct RemoteApi {
    client: Client,
    base: Url,
    token: Option<HeaderValue>,
}

impl RemoteApi {
    pub(super) fn new(remote: &Remote) -> Result<RemoteApi, Failure> {
        let what = "cannot ask the server";
        let wrong = |why: String| Failure::usage(what, why).hint("write --server http://HOST:PORT");
        let base: Url = remote.server.parse().map_err(|error| wrong(format!("--server: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(wrong(format!("--server: `{}` is not http or https", base.scheme())));
        }
        let token = remote.token.as_ref().map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        let mut token =
            token.transpose().map_err(|_| wrong("WINDLASS_TOKEN is no visible ASCII".to_owned()))?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        // The HTTP client sets up TLS even for plain HTTP and panics without a provider. One that is already installed
        // stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // No redirects: a token must only go to the named server.
        let client = Client::builder().redirect(Policy::none()).connect_timeout(CONNECT).timeout(ANSWER);
        let client = client.build().map_err(|error| Failure::new(what, error))?;
        Ok(RemoteApi { client, base, token })
    }
}

#[async_trait]
impl Api for RemoteApi {
    async fn send(&self, request: ApiRequest) -> Result<ApiAnswer, ApiError> {
        if let Some(check_path) = request.check_path() {
            return Err(check_path);
        }
        let server = self.base.origin().ascii_serialization();
        let lost = |error: reqwest::Error| {
            let why = match std::error::Error::source(&error) {
                Some(cause) => cause.to_string(),
                None => error.to_string(),
            };
            ApiError::Unreachable { server: server.clone(), why }
        };
        let target = format!("{}{}", self.base.as_str().trim_end_matches('/'), request.target());
        let mut asked = self.client.request(request.method.clone(), target);
        for (name, value) in &request.headers {
            asked = asked.header(*name, value);
        }
        if let Some(token) = &self.token {
            asked = asked.header(AUTHORIZATION, token);
        }
        if let Some((media, body)) = request.body {
            asked = asked.header(CONTENT_TYPE, media.name()).body(body);
        }
        let answer = asked.send().await.map_err(lost)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(lost)?.to_vec();
        Ok(ApiAnswer { status, body })
    }
}
