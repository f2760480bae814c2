//! The options for logins: headers, cookies and credentials. Their values are secret: they are not saved with the crawl, not
//! printed, and not passed to other processes as arguments.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crawler::internal::config::{self, FetchConfig};
use crawler::{Authentication, CookieJar};
use url::Url;

use super::crawl::absolute;
use super::settings::variable_named;

/// The heading of these options in the help.
pub const HEADING: &str = "Login";

/// The options whose values, or the files that they name, contain secrets.
pub const SECRET_OPTIONS: [&str; 5] = ["header", "cookie", "cookies", "auth", "bearer-token"];

/// Maximum size of a file with headers, cookies or credentials: a variable cannot be longer on Linux.
const MAX_SECRET_BYTES: u64 = 100_000;

/// Maximum size of a cookie file.
const MAX_COOKIE_FILE_BYTES: u64 = 64_000_000;

/// The options as parsed. [`resolve`](LoginArgs::resolve) replaces files by their content.
#[derive(clap::Args, Clone, Default, PartialEq)]
pub struct LoginArgs {
    /// Send this header to the seeds' hosts; @FILE reads headers from a file, one per line; repeatable [env: CRAWLER_HEADER]
    #[arg(long, value_name = "NAME: VALUE", help_heading = HEADING)]
    header: Vec<String>,
    /// Send these cookies to the seeds' hosts, e.g. 'a=1; b=2'; @FILE reads them from a file [env: CRAWLER_COOKIE]
    #[arg(long, value_name = "COOKIES", help_heading = HEADING)]
    cookie: Option<String>,
    /// Start with the cookies in this file, in the Netscape format [env: CRAWLER_COOKIES]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    cookies: Option<PathBuf>,
    /// Write the cookies to this file when the crawl ends or stops, in the Netscape format
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    save_cookies: Option<PathBuf>,
    /// Log in to the seeds' origins with Basic authentication; @FILE reads USER:PASSWORD from a file [env: CRAWLER_AUTH]
    #[arg(long, value_name = "USER:PASSWORD", conflicts_with = "bearer_token", help_heading = HEADING)]
    auth: Option<String>,
    /// Send this bearer token to the seeds' origins; @FILE reads it from a file [env: CRAWLER_BEARER_TOKEN]
    #[arg(long, value_name = "TOKEN", help_heading = HEADING)]
    bearer_token: Option<String>,
    /// Whether files were read. Some files, such as pipes, can be read only once.
    #[arg(skip)]
    is_resolved: bool,
}

impl LoginArgs {
    /// No secrets, whatever the environment has: for a process that sends no requests to crawled hosts.
    pub fn none() -> LoginArgs {
        LoginArgs { is_resolved: true, ..LoginArgs::default() }
    }

    /// Reads the files that contain secrets.
    pub fn resolve(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.is_resolved, true) {
            return Ok(());
        }
        for header in std::mem::take(&mut self.header) {
            match header.strip_prefix('@') {
                Some(file) => self.header.extend(header_lines(&read_secret("header", file)?)),
                None => self.header.push(header),
            }
        }
        self.cookie = secret("cookie", self.cookie.take())?;
        self.auth = secret("auth", self.auth.take())?;
        self.bearer_token = secret("bearer-token", self.bearer_token.take())?;
        for (option, path) in [("--cookies", &mut self.cookies), ("--save-cookies", &mut self.save_cookies)] {
            if let Some(path) = path {
                *path = absolute(option, path)?;
            }
        }
        Ok(())
    }

    /// Sets the headers, cookies and credentials of a crawl of these seeds.
    pub fn apply(&self, config: &mut FetchConfig, seeds: &[Url]) -> Result<(), String> {
        for line in &self.header {
            let (name, value) = line
                .split_once(':')
                .ok_or("--header is not of the form 'NAME: VALUE'; add a name and a colon")?;
            let header = config::header(name.trim(), value.trim());
            config.headers.push(header.map_err(|error| match name.trim().to_ascii_lowercase().as_str() {
                "user-agent" => "--header cannot set the User-Agent; use --user-agent".to_owned(),
                _ => format!("--header: {error}"),
            })?);
        }
        config.requests.authentication = self.authentication()?;
        if let Some(jar) = self.cookie_jar(seeds)? {
            config.requests.cookies = Some(jar);
        }
        config.check_headers().map_err(|error| error.to_string())
    }

    /// Checks that the options apply to the hosts of seed lists too, which are not known yet.
    pub fn check_for_seed_lists(&self) -> Result<(), String> {
        match self.cookie {
            None => Ok(()),
            Some(_) => Err("--cookie cannot be used with --seeds: it is for the hosts of the seeds on the command line; \
                            use --cookies, or --header 'Cookie: …'"
                .into()),
        }
    }

    fn authentication(&self) -> Result<Option<Authentication>, String> {
        match (&self.auth, &self.bearer_token) {
            (Some(auth), _) => {
                let (user, password) = auth
                    .split_once(':')
                    .ok_or("--auth is not of the form USER:PASSWORD; add a colon and a password")?;
                Ok(Some(Authentication::Basic { user: user.into(), password: password.into() }))
            }
            (None, Some(token)) => Ok(Some(Authentication::Bearer(token.clone()))),
            (None, None) => Ok(None),
        }
    }

    /// Whether an option for cookies was given.
    pub fn has_cookies(&self) -> bool {
        self.cookie.is_some() || self.cookies.is_some() || self.save_cookies.is_some()
    }

    /// The jar, if an option for cookies was given.
    fn cookie_jar(&self, seeds: &[Url]) -> Result<Option<CookieJar>, String> {
        if !self.has_cookies() {
            return Ok(None);
        }
        let jar = match &self.cookies {
            None => CookieJar::default(),
            Some(file) => {
                let unusable =
                    |error: &dyn fmt::Display| format!("cannot use --cookies '{}': {error}", file.display());
                let text = read_text(file, MAX_COOKIE_FILE_BYTES).map_err(|error| unusable(&error))?;
                CookieJar::from_netscape(&text).map_err(|error| unusable(&error))?
            }
        };
        if let Some(cookies) = &self.cookie {
            for seed in seeds {
                jar.add(seed, cookies).map_err(|error| format!("--cookie: {error}"))?;
            }
        }
        Ok(Some(jar))
    }

    /// The file of `--save-cookies`.
    pub fn save_cookies(&self) -> Option<&Path> {
        self.save_cookies.as_deref()
    }

    /// The names of the options whose values are not saved with the crawl.
    pub fn names(&self) -> Vec<String> {
        let given = [
            !self.header.is_empty(),
            self.cookie.is_some(),
            self.cookies.is_some(),
            self.auth.is_some(),
            self.bearer_token.is_some(),
        ];
        let names = SECRET_OPTIONS.iter().zip(given).filter(|(_, given)| *given);
        names.map(|(name, _)| format!("--{name}")).collect()
    }

    /// The variables that give another process the same values.
    pub fn environment(&self) -> impl Iterator<Item = (String, OsString)> {
        let values = [
            (!self.header.is_empty()).then(|| self.header.join("\n").into()),
            self.cookie.clone().map(OsString::from),
            self.cookies.clone().map(OsString::from),
            self.auth.clone().map(OsString::from),
            self.bearer_token.clone().map(OsString::from),
        ];
        SECRET_OPTIONS
            .into_iter()
            .zip(values)
            .filter_map(|(name, value)| Some((variable_named(name), value?)))
    }
}

/// Shows which options were given, and no values.
impl fmt::Debug for LoginArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoginArgs").field(&self.names()).finish()
    }
}

/// The value of an option: as given, or from a file.
fn secret(option: &str, given: Option<String>) -> Result<Option<String>, String> {
    let value = |text: String| match text.strip_prefix('@') {
        Some(file) => Ok(read_secret(option, file)?.trim_end_matches(['\r', '\n']).to_owned()),
        None => Ok(text),
    };
    given.map(value).transpose()
}

fn read_secret(option: &str, file: &str) -> Result<String, String> {
    read_text(Path::new(file), MAX_SECRET_BYTES)
        .map_err(|error| format!("cannot use --{option} '@{file}': {error}"))
}

/// The text of a file that has at most this many bytes.
fn read_text(file: &Path, max: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(|error| error.to_string())?;
    opened.take(max + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > max {
        return Err(format!("it has more than {max} bytes; give a smaller file"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text; give a text file".into())
}

/// The headers in a file: one on each line. Empty lines and comments are skipped.
fn header_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}
