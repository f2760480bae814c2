//! The options that say which content is kept in addition to HTML and text in scope.

use crawler::{RequestSettings, Scope};
use serde::{Deserialize, Serialize};

use crate::values;

/// The content to keep, as parsed.
#[derive(clap::Args, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ContentArgs {
    /// Also keep content of these media types, e.g. application/pdf,image/*; images and other files of pages are followed if
    /// they can have such a type; repeatable
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = values::media_type, help_heading = "Pages", display_order = 90)]
    #[serde(default)]
    pub accept: Vec<String>,
    /// Save only pages whose URL matches this regular expression; the links of other pages are still followed; repeatable:
    /// one of them must match
    #[arg(long, value_name = "REGEX", value_parser = values::pattern, help_heading = "Pages", display_order = 91)]
    #[serde(default)]
    pub save_include: Vec<String>,
    /// Do not save pages whose URL matches this regular expression; their links are still followed; repeatable
    #[arg(long, value_name = "REGEX", value_parser = values::pattern, help_heading = "Pages", display_order = 92)]
    #[serde(default)]
    pub save_exclude: Vec<String>,
    /// Maximum size of content that is neither HTML nor text; larger content is skipped
    #[arg(long, value_name = "SIZE", default_value = "10MB", value_parser = values::size, help_heading = "Limits", display_order = 91)]
    #[serde(default = "default_max_file_bytes")]
    pub max_file_bytes: usize,
}

fn default_max_file_bytes() -> usize {
    RequestSettings::default().max_file_bytes
}

impl ContentArgs {
    /// Applies the options to the settings of requests.
    pub fn apply(&self, requests: &mut RequestSettings) -> Result<(), String> {
        requests.accept.clone_from(&self.accept);
        requests.max_file_bytes = self.max_file_bytes;
        requests.save =
            Scope::anywhere().with_filters(&self.save_include, &self.save_exclude).map_err(|_| {
                "cannot compile --save-include and --save-exclude: together they are too large; give fewer patterns"
            })?;
        Ok(())
    }
}
