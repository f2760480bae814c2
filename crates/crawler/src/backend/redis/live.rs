//! What was changed in a distributed crawl since it started. All its processes read it when its version changes.

use super::super::BackendError;
use super::connection::Call;
use super::control::CrawlControl;
use super::scripts;
use crate::error::StorageErrorKind;
use crate::live_settings::LiveSettings;

/// Whether a change was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It was.
    Yes,
    /// Another process has changed something since the version that was given.
    Outdated,
    /// The crawl is not running.
    Over,
}

impl CrawlControl {
    /// What was changed, and its version.
    pub async fn live_settings(&self) -> Result<(u64, LiveSettings), BackendError> {
        let get = self.member_call("HMGET", "crawl").arg("live").arg("changes");
        let (version, changes): (Option<u64>, Option<Vec<u8>>) = self.ask(get).await?;
        let settings = changes.map(|changes| serde_json::from_slice(&changes)).transpose();
        // With the defaults in their place, a paused crawl would continue.
        let settings = settings.map_err(|error| {
            let message = format!(
                "cannot read what was changed in the crawl: {error}; use the version of crawler that changed it"
            );
            BackendError::redis(StorageErrorKind::Unsupported, message)
        })?;
        Ok((version.unwrap_or(0), settings.unwrap_or_default()))
    }

    /// Stores what was changed, if this is the version of what was changed before.
    pub(crate) async fn set_live_settings(
        &self,
        version: u64,
        settings: &LiveSettings,
    ) -> Result<Stored, BackendError> {
        let settings = serde_json::to_vec(settings)
            .map_err(|error| BackendError::redis(StorageErrorKind::Internal, error.to_string()))?;
        let call = self.member_script(&scripts::SET_CHANGES).arg(version).arg(settings);
        let stored: String = self.confirmed(call).await?;
        Ok(match stored.as_str() {
            "stored" => Stored::Yes,
            "outdated" => Stored::Outdated,
            _ => Stored::Over,
        })
    }

    /// The entries of the index of listed seeds after the first `bytes` bytes.
    pub(crate) async fn seed_index_after(&self, bytes: usize) -> Result<Vec<u8>, BackendError> {
        let get = Call::new("GETRANGE", self.shared.keys.of("seed-index"));
        self.ask(get.arg(bytes).arg(-1)).await
    }
}
