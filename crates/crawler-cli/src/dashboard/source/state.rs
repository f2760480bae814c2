//! The crawl in a state directory, which another process may run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crawler::internal::backend::durable::{StateReader, StateStatus};
use crawler::internal::live_settings::ControlAction;

use super::super::view::{Mode, View};
use super::{blocked, in_thread};
use crate::commands::change::explain;
use crate::commands::with_hint;
use crate::live::disk_space::DiskSpace;

/// The crawl in a state directory.
pub struct StateSource {
    directory: PathBuf,
    /// What was read when no process ran the crawl, and when the files were changed before that.
    at_rest: Arc<Mutex<Option<(SystemTime, View)>>>,
    disk_space: DiskSpace,
}

impl StateSource {
    pub fn new(directory: PathBuf) -> StateSource {
        let disk_space = DiskSpace::new([directory.clone()]);
        StateSource { directory, at_rest: Arc::default(), disk_space }
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.directory.clone()
    }

    pub(super) async fn view(&self) -> Result<View, String> {
        let (directory, at_rest) = (self.directory.clone(), Arc::clone(&self.at_rest));
        let disk_space = self.disk_space.clone();
        in_thread(move || {
            let mut view = read(&directory, &at_rest)?;
            view.add_disk_space(&disk_space);
            Ok(view)
        })
        .await?
    }

    pub(super) async fn act(&self, action: ControlAction) -> Result<String, String> {
        let directory = self.directory.clone();
        in_thread(move || {
            let mut state = StateReader::open(&directory).map_err(|error| with_hint(&error))?;
            state.control(action).map_err(|error| explain(error, &directory))
        })
        .await?
    }
}

/// Reads the state. One that no process uses is read again only after it was changed: reading it locks it, and a crawl that
/// starts at that moment would have to wait.
fn read(directory: &Path, at_rest: &Mutex<Option<(SystemTime, View)>>) -> Result<View, String> {
    let mut at_rest = at_rest.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((changed, view)) = &*at_rest
        && last_change(directory) == Some(*changed)
    {
        return Ok(view.clone());
    }
    let status = StateReader::open(directory).and_then(|mut state| state.status());
    let status: StateStatus = status.map_err(|error| with_hint(&error))?;
    let view = View {
        crawl: status.view(),
        can_act: status.process.is_some(),
        can_resume: true,
        blocked: blocked(status.live),
        ..View::starting(&directory.display().to_string(), Mode::Pipeline)
    };
    *at_rest = match status.process {
        Some(_) => None,
        None => last_change(directory).map(|changed| (changed, view.clone())),
    };
    Ok(view)
}

/// When a file of a directory was changed, created or removed.
fn last_change(directory: &Path) -> Option<SystemTime> {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let files = fs::read_dir(directory).ok()?.flatten().filter_map(|entry| changed(&entry.path()));
    files.chain(changed(directory)).max()
}
