//! The service at the other end: which request asks for ranks, and which answers count as failures.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::{PageRankConfig, Rank, response};
use crate::config::FetchConfig;
use crate::domain::Domain;
use crate::error::Error;
use crate::fetch::http::{BodyPolicy, ByteCounter, Download, Downloader};
use crate::origin::without_credentials;
use crate::outcome::Outcome;

/// Where the API is below the service's URL.
const PATH: [&str; 3] = ["api", "v1.0", "getPageRank"];

/// The parameter that names one domain.
const PARAMETER: &str = "domains[]";

/// The header that carries the key.
const KEY_HEADER: &str = "api-opr";

/// The most domains the API takes in one request.
const MAX_BATCH: usize = 100;

/// The longest query: many servers refuse a request line of more than 8 KB.
const MAX_QUERY_BYTES: usize = 7_000;

/// What one domain adds to the query besides itself: `&domains%5B%5D=`.
const PARAMETER_BYTES: usize = 15;

/// Far more than what the API says about a hundred domains, which is about 20 KB.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Why there are no ranks.
#[derive(Debug)]
pub struct QueryFailure {
    /// In words.
    pub cause: String,
    /// Whether asking again soon may well end otherwise.
    pub may_pass: bool,
    /// How long the service asks to be left alone.
    pub leave_alone: Option<Duration>,
}

/// The way to the service.
pub struct PageRankClient {
    endpoint: Url,
    downloader: Downloader,
}

impl PageRankClient {
    /// The service of these settings, reached as this crawl reaches its hosts.
    pub fn new(config: &FetchConfig, settings: &PageRankConfig) -> Result<PageRankClient, Error> {
        let useless = |what: &str| Error::InvalidSetting(format!("PageRank service: {what}"));
        let home = &settings.url;
        if !matches!(home.scheme(), "http" | "https") {
            return Err(useless("its URL must begin with http:// or https://"));
        }
        let mut endpoint = without_credentials(home);
        endpoint.set_query(None);
        endpoint.set_fragment(None);
        if let Ok(mut path) = endpoint.path_segments_mut() {
            path.pop_if_empty().extend(PATH);
        }
        let config = FetchConfig {
            timeout: settings.timeout,
            connect_timeout: config.connect_timeout.min(settings.timeout),
            // They are meant for the seeds' origins only.
            headers: Vec::new(),
            ..config.clone()
        };
        // As the one seed of its downloader the service may be at any address: the user named it.
        let mut downloader = Downloader::new(Arc::new(config), std::slice::from_ref(home))?;
        if let Some(key) = &settings.key {
            downloader = downloader
                .with_secret(home, KEY_HEADER, &key.0)
                .ok_or_else(|| useless("its key cannot be sent; use printable ASCII only"))?;
        }
        Ok(PageRankClient { endpoint, downloader })
    }

    /// Asks for the ranks of one batch, once.
    pub async fn ranks(&self, batch: &[&Domain]) -> Result<HashMap<String, Rank>, QueryFailure> {
        let mut url = self.endpoint.clone();
        url.query_pairs_mut().extend_pairs(batch.iter().map(|domain| (PARAMETER, domain.as_str())));
        let want = BodyPolicy::Start(MAX_ANSWER_BYTES);
        let download = match self.downloader.get(&url, want, &ByteCounter::default()).await {
            // The connection had been closed meanwhile; that says nothing about the service.
            Err(Outcome::StaleConnection) => self.downloader.get(&url, want, &ByteCounter::default()).await,
            answer => answer,
        };
        let Download { status, retry_after, body, .. } = download.map_err(QueryFailure::of)?;
        if status != 200 {
            return Err(QueryFailure::of(Outcome::HttpStatus { code: status, retry_after }));
        }
        let ranks = response::ranks(&body);
        ranks.map_err(|cause| QueryFailure { cause: cause.into(), may_pass: false, leave_alone: None })
    }
}

impl QueryFailure {
    fn of(outcome: Outcome) -> QueryFailure {
        let leave_alone = match outcome {
            Outcome::HttpStatus { retry_after, .. } => retry_after,
            _ => None,
        };
        QueryFailure { cause: outcome.to_string(), may_pass: outcome.is_transient(), leave_alone }
    }
}

/// Domains in batches that fit one request each.
pub fn batches<'a, 'd>(domains: &'a [&'d Domain]) -> impl Iterator<Item = &'a [&'d Domain]> {
    let mut rest = domains;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(MAX_BATCH).take_while(|domain| {
            bytes += PARAMETER_BYTES + domain.as_str().len();
            bytes <= MAX_QUERY_BYTES
        });
        // One domain always goes: a name of DNS is far shorter than a query may be.
        let count = fits.count().max(1).min(rest.len());
        let (batch, later) = rest.split_at(count);
        rest = later;
        (!batch.is_empty()).then_some(batch)
    })
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
    fn batches_are_whole_in_order_and_fit_a_request() {
        for (count, length) in [(0, 1), (1, 1), (100, 1), (101, 1), (250, 50), (250, 200), (3, 10_000)] {
            let domains = domains(count, length);
            let domains: Vec<&Domain> = domains.iter().collect();
            let batches: Vec<_> = batches(&domains).collect();
            assert_eq!(batches.concat(), domains);
            for batch in &batches {
                let query: usize = batch.iter().map(|it| PARAMETER_BYTES + it.as_str().len()).sum();
                assert!(batch.len() <= MAX_BATCH && (query <= MAX_QUERY_BYTES || batch.len() == 1));
            }
        }
        let many = domains(250, 20);
        let many: Vec<&Domain> = many.iter().collect();
        assert_eq!(batches(&many).map(<[_]>::len).collect::<Vec<_>>(), [100, 100, 50]);
    }

    #[test]
    fn the_path_goes_below_the_services_url() {
        let endpoint = |url: &str| {
            let settings = PageRankConfig::new(Url::parse(url).unwrap());
            PageRankClient::new(&FetchConfig::default(), &settings)
                .map(|service| service.endpoint.to_string())
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
    fn a_key_that_cannot_be_sent_is_refused_without_being_shown() {
        let mut settings = PageRankConfig::new(Url::parse("http://127.0.0.1/").unwrap());
        settings.key = Some(super::super::ApiKey::new("hush\nhush"));
        let refusal = PageRankClient::new(&FetchConfig::default(), &settings).err().unwrap().to_string();
        assert!(refusal.contains("key") && !refusal.contains("hush"), "{refusal}");
    }
}
