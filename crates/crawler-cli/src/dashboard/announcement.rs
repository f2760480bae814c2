//! What is printed about the server when it starts: its URLs, and a random token.

use serde_json::json;

use super::access::Secret;
use crate::args::Verbosity;

/// How the URLs are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnouncementForm {
    /// As text.
    Text,
    /// As text, and only what the user cannot know otherwise: a port or a token that the user did not choose.
    Quiet,
    /// As JSON objects.
    Json,
}

impl From<Verbosity> for AnnouncementForm {
    fn from(verbosity: Verbosity) -> AnnouncementForm {
        match verbosity {
            Verbosity::Quiet => AnnouncementForm::Quiet,
            Verbosity::Normal | Verbosity::Verbose => AnnouncementForm::Text,
        }
    }
}

/// A URL of the server.
pub struct Announcement {
    /// What is there: `dashboard` or `metrics`.
    pub name: &'static str,
    pub url: String,
    /// The token, if it is random.
    pub token: Option<Secret>,
    /// Whether the server cannot be used without reading this.
    pub is_needed: bool,
}

impl Announcement {
    /// The text without the token, for a log file: others may read it, now or later.
    pub fn without_token(&self) -> String {
        format!("{}: {}", self.name, self.url)
    }

    /// The text.
    pub fn text(&self) -> String {
        match &self.token {
            Some(token) if self.name == "metrics" => {
                format!("{}, with the header Authorization: Bearer {}", self.without_token(), token.text())
            }
            _ => format!("{}: {}", self.name, self.url_with_token()),
        }
    }

    /// What is printed in this form, if anything.
    pub fn in_form(&self, form: AnnouncementForm) -> Option<String> {
        match form {
            AnnouncementForm::Text => Some(self.text()),
            AnnouncementForm::Quiet => self.is_needed.then(|| self.text()),
            AnnouncementForm::Json => Some(self.json()),
        }
    }

    fn json(&self) -> String {
        let token = self.token.as_ref().map(Secret::text);
        match self.name {
            "metrics" => json!({ "state": "starting", "metrics": self.url, "token": token }),
            name => json!({ "state": "starting", name: self.url_with_token() }),
        }
        .to_string()
    }

    /// A browser that opens it keeps the token in a cookie.
    fn url_with_token(&self) -> String {
        let token = self.token.as_ref().map(|token| format!("?token={}", token.text()));
        format!("{}{}", self.url, token.unwrap_or_default())
    }
}
