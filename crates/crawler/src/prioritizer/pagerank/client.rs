//! The HTTP client of the PageRank service: sends requests for ranks, and decides which responses are
//! failures.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::{PageRankConfig, Rank, response};
use crate::config::FetchConfig;
use crate::domain::Domain;
use crate::error::Error;
use crate::fetch::http::{BodyPolicy, ByteCounter, Download, Downloader};
use crate::origin::{Origin, without_credentials};
use crate::outcome::Outcome;
use crate::request_settings::RequestSettings;

/// The path of the API below the service's URL.
const PATH: [&str; 3] = ["api", "v1.0", "getPageRank"];

/// The query parameter for one domain.
const PARAMETER: &str = "domains[]";

/// The header that carries the key.
const KEY_HEADER: &str = "api-opr";

/// The most domains that the API accepts in one request.
pub const MAX_BATCH: usize = 100;

/// The longest query: many servers reject a request line of more than 8 KB.
const MAX_QUERY_BYTES: usize = 7_000;

/// The length of `&domains%5B%5D=`, which each domain adds to the query in addition to its name.
const PARAMETER_BYTES: usize = 15;

/// The largest response. One about a hundred domains has about 20 KB.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;

/// A failed request for ranks.
#[derive(Debug)]
pub struct QueryFailure {
    /// The cause, for messages.
    pub cause: String,
    /// Whether a retry may succeed.
    pub is_retryable: bool,
    /// The time of the response's Retry-After header.
    pub retry_after: Option<Duration>,
}

/// A client of the service.
pub struct PageRankClient {
    endpoint: Url,
    downloader: Downloader,
}

impl PageRankClient {
    /// A client that connects with the crawl's own HTTP settings.
    pub fn new(config: &FetchConfig, settings: &PageRankConfig) -> Result<PageRankClient, Error> {
        let invalid = |what: &str| Error::InvalidSetting(format!("cannot use the PageRank service: {what}"));
        let service = &settings.url;
        if !matches!(service.scheme(), "http" | "https") {
            return Err(invalid("its URL must start with http:// or https://"));
        }
        let mut endpoint = without_credentials(service);
        endpoint.set_query(None);
        endpoint.set_fragment(None);
        if let Ok(mut path) = endpoint.path_segments_mut() {
            path.pop_if_empty().extend(PATH);
        }
        let config = FetchConfig {
            timeout: settings.timeout,
            requests: RequestSettings {
                connect_timeout: config.requests.connect_timeout.min(settings.timeout),
                // Secrets are for the hosts of the seeds.
                cookies: None,
                authentication: None,
                headers_everywhere: false,
                // The service gets a key.
                insecure: false,
                ..config.requests.clone()
            },
            headers: Vec::new(),
            ..config.clone()
        };
        // As the only seed of its downloader, the service may have a private address: the user configured it.
        let mut downloader = Downloader::new(Arc::new(config), std::slice::from_ref(service))?;
        if let Some(key) = &settings.key {
            downloader = downloader
                .with_secret(service, KEY_HEADER, &key.0)
                .ok_or_else(|| invalid("its key is not a valid header value; use printable ASCII only"))?;
        }
        Ok(PageRankClient { endpoint, downloader })
    }

    /// Requests the ranks of one batch, without retries.
    pub async fn ranks(&self, batch: &[Domain]) -> Result<HashMap<String, Rank>, QueryFailure> {
        let mut url = self.endpoint.clone();
        url.query_pairs_mut().extend_pairs(batch.iter().map(|domain| (PARAMETER, domain.as_str())));
        let policy = BodyPolicy::Prefix(MAX_RESPONSE_BYTES);
        let bytes = ByteCounter::new(u64::MAX, &policy);
        let origin = Origin::from_url(&url);
        let get = || self.downloader.get(&url, &origin, async |_| Ok(()), policy, &bytes);
        let download = match get().await {
            // The server had closed the idle connection. That is no failure of the service.
            Err(Outcome::StaleConnection) => get().await,
            download => download,
        };
        let Download { status, retry_after, body, .. } = download.map_err(QueryFailure::from_outcome)?;
        if status != 200 {
            return Err(QueryFailure::from_outcome(Outcome::HttpStatus { code: status, retry_after }));
        }
        let ranks = response::ranks(&body);
        ranks.map_err(|cause| QueryFailure { cause: cause.into(), is_retryable: false, retry_after: None })
    }
}

impl QueryFailure {
    fn from_outcome(outcome: Outcome) -> QueryFailure {
        let retry_after = match outcome {
            Outcome::HttpStatus { retry_after, .. } => retry_after,
            _ => None,
        };
        QueryFailure { cause: outcome.to_string(), is_retryable: outcome.is_retryable(), retry_after }
    }
}

/// The number of leading domains that fit one request.
pub fn batch_length<'d>(domains: impl ExactSizeIterator<Item = &'d Domain>) -> usize {
    let (mut bytes, available) = (0, domains.len());
    let fits = domains.take(MAX_BATCH).take_while(|domain| {
        bytes += PARAMETER_BYTES + domain.as_str().len();
        bytes <= MAX_QUERY_BYTES
    });
    // At least one domain: a DNS name is far shorter than the longest query.
    fits.count().max(1).min(available)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(count: usize, length: usize) -> Vec<Domain> {
        let label = "a".repeat(length);
        let url = |number| Url::parse(&format!("http://d{number}{label}.test/")).unwrap();
        (0..count).map(|number| Domain::from_url(&url(number))).collect()
    }

    #[test]
    fn batches_fit_a_request_and_have_at_least_one_domain() {
        for (count, length) in [(0, 1), (1, 1), (100, 1), (101, 1), (250, 50), (250, 200), (3, 10_000)] {
            let domains = domains(count, length);
            let batch = &domains[..batch_length(domains.iter())];
            let query: usize = batch.iter().map(|it| PARAMETER_BYTES + it.as_str().len()).sum();
            assert!(batch.len() <= MAX_BATCH && (query <= MAX_QUERY_BYTES || batch.len() == 1));
            assert_eq!(batch.is_empty(), count == 0);
        }
        assert_eq!(batch_length(domains(250, 20).iter()), 100);
    }

    #[test]
    fn api_path_is_below_the_service_url() {
        let endpoint = |url: &str| {
            let settings = PageRankConfig::new(Url::parse(url).unwrap());
            PageRankClient::new(&FetchConfig::default(), &settings).map(|client| client.endpoint.to_string())
        };
        let root = "https://ranks.test/api/v1.0/getPageRank";
        for url in ["https://ranks.test", "https://ranks.test/", "https://user:secret@ranks.test/?x#y"] {
            assert_eq!(endpoint(url).unwrap(), root);
        }
        for url in ["http://127.0.0.1:8080/below", "http://127.0.0.1:8080/below/"] {
            assert_eq!(endpoint(url).unwrap(), "http://127.0.0.1:8080/below/api/v1.0/getPageRank");
        }
        assert!(endpoint("ftp://ranks.test/").is_err());
    }

    #[test]
    fn invalid_key_is_rejected_without_being_shown() {
        let mut settings = PageRankConfig::new(Url::parse("http://127.0.0.1/").unwrap());
        settings.key = Some(super::super::ApiKey::new("hush\nhush"));
        let message = PageRankClient::new(&FetchConfig::default(), &settings).err().unwrap().to_string();
        assert!(message.contains("key") && !message.contains("hush"), "{message}");
    }
}
