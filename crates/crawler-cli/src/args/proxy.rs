//! The options for proxies. They belong to a process, not to a crawl: they may contain a password, and are never saved.

use std::env;
use std::ffi::OsString;

use crawler::Proxies;

/// The environment variable that sets `--proxy`. Other users can see the arguments of a process, but not this.
pub const PROXY_VARIABLE: &str = "CRAWLER_PROXY";

const PROXY_HELP: &str = "Send requests through this proxy: http://, https://, socks5:// or socks5h://[user:password@]host[:port] \
                          [env: CRAWLER_PROXY, or http_proxy, https_proxy, all_proxy, no_proxy]";

/// The options as parsed.
#[derive(clap::Args, Debug, Clone, Default, PartialEq)]
pub struct ProxyArgs {
    /// The proxy, as given.
    #[arg(long, value_name = "URL", help_heading = "Network", help = PROXY_HELP)]
    proxy: Option<String>,
    /// Connect directly, and ignore the proxies in the environment
    #[arg(long, conflicts_with = "proxy", help_heading = "Network")]
    no_proxy: bool,
}

impl ProxyArgs {
    /// The proxies in force.
    pub fn proxies(&self) -> Result<Proxies, String> {
        let proxies = match self.explicit() {
            _ if self.no_proxy => return Ok(Proxies::default()),
            None => return Proxies::from_environment().map_err(|error| self.message(&error)),
            Some(url) => {
                let url = url.into_string().map_err(|_| format!("{PROXY_VARIABLE} is not UTF-8"))?;
                Proxies::new(&url).map_err(|error| self.message(&error))?
            }
        };
        let no_proxy = ["no_proxy", "NO_PROXY"].iter().find_map(|name| non_empty(name));
        Ok(proxies.except(&no_proxy.unwrap_or_default().to_string_lossy()))
    }

    /// The proxy that was given to this program, rather than to all programs.
    pub fn explicit(&self) -> Option<OsString> {
        match &self.proxy {
            _ if self.no_proxy => None,
            Some(url) => Some(url.into()),
            None => non_empty(PROXY_VARIABLE),
        }
    }

    /// Whether requests are to go directly to their servers.
    pub fn is_direct(&self) -> bool {
        self.no_proxy
    }

    fn message(&self, error: &crawler::Error) -> String {
        match (&self.proxy, non_empty(PROXY_VARIABLE)) {
            (Some(_), _) => format!("--proxy: {error}"),
            (None, Some(_)) => format!("{PROXY_VARIABLE}: {error}"),
            // The message names the variable.
            (None, None) => format!("{error}, or use --no-proxy to connect directly"),
        }
    }
}

/// The value of an environment variable. An empty one counts as not set.
fn non_empty(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
