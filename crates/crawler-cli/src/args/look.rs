//! The command lines of looking into a state: `crawler show URL --state DIR`, `crawler why URL --state DIR`.

use std::path::PathBuf;

use url::Url;

/// What was typed.
#[derive(clap::Args)]
pub struct TypedLook {
    /// An absolute URL
    #[arg(value_name = "URL")]
    url: String,
    /// What was given as --state when the crawl was begun
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
}

/// A URL that somebody wants to know about, and where it is known.
pub struct Look {
    /// The URL.
    pub url: Url,
    /// The directory of a crawl's state.
    pub state: PathBuf,
}

impl TypedLook {
    /// Checks what was typed.
    pub fn meant(self) -> Result<Look, String> {
        let url = Url::parse(&self.url)
            .map_err(|error| format!("the URL is not usable: {error}; give an absolute URL"))?;
        Ok(Look { url, state: self.state })
    }
}
