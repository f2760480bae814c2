//! The resources of the server, and who may use them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use tokio::sync::Semaphore;
use url::Url;

use super::access::{Listening, Protection, Secret};
use super::action::{self, ActionResponse};
use super::events::EventStream;
use super::feed::Feed;
use super::health;
use super::metrics;
use super::page;
use super::response::{
    CSS, Content, HTML, JSON, METRICS, SCRIPT, TEXT, ok, refused, response, text, to_page_with_cookie,
    wrong_method,
};
use crate::printable::printable;
use crate::values;

/// Viewers at a time.
pub const MAX_STREAMS: usize = 16;

/// Queries for URLs at a time, until their responses are sent: each may take megabytes.
const MAX_QUERIES: usize = 4;

/// The largest body of a request.
const MAX_BODY_BYTES: usize = 64 << 10;

/// How long a client may take to send it.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reports what an action did.
pub type ActionLog = Box<dyn Fn(&str) + Send + Sync>;

/// What the server serves.
pub struct Site {
    feed: Arc<Feed>,
    csrf: Secret,
    /// How many hosts have metrics of their own.
    metrics_hosts: usize,
    log: ActionLog,
    streams: Arc<Semaphore>,
    queries: Arc<Semaphore>,
}

/// A resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Page,
    Style,
    Script,
    Events,
    Session,
    Status,
    Why,
    Show,
    Action,
    Metrics,
    Healthz,
    Readyz,
}

impl Resource {
    fn at(path: &str) -> Option<Resource> {
        Some(match path {
            "/" => Resource::Page,
            "/style.css" => Resource::Style,
            "/script.js" => Resource::Script,
            "/events" => Resource::Events,
            "/api/session" => Resource::Session,
            "/api/status" => Resource::Status,
            "/api/why" => Resource::Why,
            "/api/show" => Resource::Show,
            "/api/action" => Resource::Action,
            "/metrics" => Resource::Metrics,
            "/healthz" => Resource::Healthz,
            "/readyz" => Resource::Readyz,
            _ => return None,
        })
    }

    fn is_for_monitoring(self) -> bool {
        matches!(self, Resource::Metrics | Resource::Healthz | Resource::Readyz)
    }

    fn protection(self) -> Protection {
        match self {
            Resource::Page => Protection::Page,
            Resource::Action => Protection::Action,
            Resource::Healthz | Resource::Readyz => Protection::Public,
            _ => Protection::Data,
        }
    }
}

/// Whether a request for this path is one of monitoring.
pub fn is_for_monitoring(path: &str) -> bool {
    Resource::at(path).is_some_and(Resource::is_for_monitoring)
}

impl Site {
    /// A site that shows a crawl. Actions are reported to `log`.
    pub fn new(feed: Arc<Feed>, metrics_hosts: usize, log: ActionLog) -> Result<Site, String> {
        Ok(Site {
            feed,
            csrf: Secret::random()?,
            metrics_hosts,
            log,
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            queries: Arc::new(Semaphore::new(MAX_QUERIES)),
        })
    }

    /// The response to a request.
    pub async fn respond(&self, request: Request<Incoming>, listening: &Listening) -> Response<Content> {
        let (head, body) = request.into_parts();
        let resource = Resource::at(head.uri.path())
            .filter(|resource| listening.has_page || resource.is_for_monitoring());
        let protection = resource.map_or(Protection::Data, Resource::protection);
        if let Err(refusal) = listening.check(&head, protection, &self.csrf) {
            if resource == Some(Resource::Page)
                && refusal.0 == StatusCode::UNAUTHORIZED
                && let Some(cookie) = listening.token_cookie(head.uri.query())
            {
                return to_page_with_cookie(&cookie);
            }
            return refused(refusal);
        }
        // The token does not stay in the address bar, where others see it.
        if resource == Some(Resource::Page)
            && let Some(cookie) = listening.token_cookie(head.uri.query())
        {
            return to_page_with_cookie(&cookie);
        }
        let Some(resource) = resource else { return text(StatusCode::NOT_FOUND, "There is nothing here.") };
        match (resource, &head.method) {
            (Resource::Action, &Method::POST) => self.act(body).await,
            (Resource::Action, _) => wrong_method("POST"),
            (_, &Method::GET | &Method::HEAD) => self.get(resource, &head).await,
            _ => wrong_method("GET, HEAD"),
        }
    }

    async fn get(&self, resource: Resource, head: &Parts) -> Response<Content> {
        match resource {
            Resource::Page => ok(HTML, page::INDEX),
            Resource::Style => ok(CSS, page::STYLE),
            Resource::Script => ok(SCRIPT, page::SCRIPT),
            Resource::Events if head.method == Method::GET => self.events().await,
            Resource::Events => ok("text/event-stream", ""),
            Resource::Session => {
                let can_act = self.feed.view().await.can_act;
                ok(JSON, json!({ "csrf": self.csrf.text(), "can_act": can_act }).to_string())
            }
            Resource::Status => ok(JSON, self.feed.status_with_history().await),
            Resource::Why | Resource::Show => self.query(resource, head).await,
            Resource::Metrics => ok(METRICS, metrics::text(&*self.feed.view().await, self.metrics_hosts)),
            Resource::Healthz => health::liveness(self.feed.source(), head.uri.query()),
            Resource::Readyz => health::response(health::readiness(&self.feed).await),
            Resource::Action => wrong_method("POST"),
        }
    }

    async fn events(&self) -> Response<Content> {
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many pages show this crawl. Close one of them.",
            );
        };
        // Subscribed first, so that no message is missed in between.
        let messages = self.feed.subscribe();
        let first = self.feed.status_with_history().await;
        let events = Content::Events(EventStream::new(first, messages, permit));
        let mut response = response(StatusCode::OK, "text/event-stream", events);
        // nginx would keep the messages until it has many.
        response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    /// Explains why a URL has its outcome, or shows its page.
    async fn query(&self, resource: Resource, head: &Parts) -> Response<Content> {
        let query = head.uri.query().unwrap_or_default();
        let given = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "url");
        let url: Url = match given
            .ok_or("the URL is missing; add ?url=...".to_owned())
            .and_then(|(_, url)| values::url(&url))
        {
            Ok(url) => url,
            Err(error) => return text(StatusCode::BAD_REQUEST, &printable(&error)),
        };
        let Ok(permit) = Arc::clone(&self.queries).try_acquire_owned() else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "Other queries are in progress. Try again.");
        };
        let result = match resource {
            Resource::Why => self.feed.source().why(url).await,
            _ => self.feed.source().show(url).await,
        };
        let (status, body) = match result {
            Ok(body) => (StatusCode::OK, body),
            Err(error) => (StatusCode::NOT_FOUND, error + "\n"),
        };
        response(status, TEXT, Content::Whole(Some(body.into()), Some(permit)))
    }

    async fn act(&self, body: Incoming) -> Response<Content> {
        let body = match read_body(body).await {
            Ok(body) => body,
            Err((status, reason)) => return action_response(status, false, reason.to_owned()),
        };
        let action = match action::parse(&body) {
            Ok(action) => action,
            Err(error) => return action_response(StatusCode::BAD_REQUEST, false, error),
        };
        match self.feed.source().act(action).await {
            Ok(done) => {
                (self.log)(&format!("dashboard: {done}"));
                action_response(StatusCode::OK, true, done)
            }
            Err(error) => action_response(StatusCode::CONFLICT, false, error),
        }
    }
}

fn action_response(status: StatusCode, done: bool, message: String) -> Response<Content> {
    let json = serde_json::to_vec(&ActionResponse { done, message }).unwrap_or_default();
    response(status, JSON, Content::Whole(Some(json.into()), None))
}

async fn read_body(body: Incoming) -> Result<Bytes, (StatusCode, &'static str)> {
    const TOO_LARGE: (StatusCode, &str) = (StatusCode::PAYLOAD_TOO_LARGE, "the action is too large");
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(TOO_LARGE);
    }
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the action took too long to arrive")),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(TOO_LARGE),
        Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "the action is incomplete")),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}
