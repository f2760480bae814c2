//! Starts another visit: queues the known URLs again, with the counts of the crawl at zero.
//!
//! The state records that it has begun before the first URL is queued, and how far it is with each commit. So a process that is
//! killed leaves a visit that the next process continues, and no URL is queued twice.

use serde::{Deserialize, Serialize};

use super::super::{BackendError, TaskId};
use super::open::read_checkpoint;
use super::outputs::OpenOutputs;
use super::records::{CompletedRow, HostRow, SeenRow, TaskRow};
use super::retry::pending;
use super::scope_change::{ResumedScope, rejection};
use super::{Batch, Tables, View, schedule};
use crate::backend::local::storage::unix_millis;
use crate::scope::Scope;
use crate::seed_list::SeedIndex;
use crate::similarity::HashKey;
use crate::task_kind::TaskKind;
use crate::visit::RevisitAfter;

/// Number of completed URLs to read, and to queue again in one commit.
const ROWS_PER_COMMIT: usize = 4096;

/// The name of the value that records how far a visit is that has begun.
const BEGUN: &str = "recrawl";

/// The name of the value that records that a visit has ended: no URL is pending, or a limit is reached, and the outputs are complete.
const ENDED: &str = "visit_ended";

/// The name of the value that records which URLs the last visit visits.
const VISIT: &str = "visit";

/// What another visit visits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recrawl {
    /// Which URLs are due; all without it.
    pub revisit_after: Option<RevisitAfter>,
}

/// A visit that has begun, and whose URLs are not all queued yet.
#[derive(Debug, Serialize, Deserialize)]
struct StartedVisit {
    recrawl: Recrawl,
    /// When it began: Unix time in milliseconds.
    at: u64,
    /// The first task to queue again.
    next: u64,
}

/// Starts another visit, unless the last one has not ended and is continued, and queues the URLs of a visit that has started.
pub(super) fn start(
    tables: &Tables,
    key: HashKey,
    scope: &ResumedScope,
    recrawl: Option<&Recrawl>,
) -> Result<(), BackendError> {
    recrawl.map_or(Ok(()), |recrawl| record_begin(tables, recrawl))?;
    queue_begun(tables, key, scope)
}

/// Completes the outputs of a visit that has no pending URL, and whose process was killed or failed before they were complete, and
/// records that it has ended. If they cannot be completed, it has not ended.
pub(super) fn complete_outputs(tables: &Tables, outputs: &impl OpenOutputs) -> Result<(), BackendError> {
    let view = tables.view()?;
    let checkpoint = read_checkpoint(&view)?;
    let is_over =
        checkpoint.last_task_id() > 0 && checkpoint.pending() == Some(0) && read_begun(&view)?.is_none();
    if is_over && !has_ended(&view)? && outputs.complete() {
        let mut batch = Batch { number: 1, ..Batch::default() };
        set_ended(&mut batch, true);
        tables.write(&batch)?;
    }
    Ok(())
}

fn has_ended(view: &View) -> Result<bool, BackendError> {
    Ok(view.meta(ENDED)?.is_some_and(|ended| ended == [1]))
}

/// Records that another visit starts, with all counts at zero, unless the last one has not ended.
pub(super) fn record_begin(tables: &Tables, recrawl: &Recrawl) -> Result<(), BackendError> {
    let view = tables.view()?;
    let checkpoint = read_checkpoint(&view)?;
    // A crawl that visits URLs again when they are due never ends by itself.
    let has_ended = has_ended(&view)? || schedule::has_rule(&view)?;
    if checkpoint.last_task_id() == 0 || !has_ended || read_begun(&view)?.is_some() {
        return Ok(());
    }
    let pending = checkpoint.pending().unwrap_or(0);
    // The schedule is that of the visit before.
    let mut batch = Batch { number: 1, ..Batch::default() };
    schedule::clear(&mut batch);
    batch.meta.insert("checkpoint", checkpoint.start_visit(pending).to_bytes());
    // The statistics are those of this visit.
    batch.meta.insert("view", Vec::new());
    set_ended(&mut batch, false);
    batch.meta.insert(VISIT, to_json(recrawl));
    set_begun(&mut batch, Some(&StartedVisit { recrawl: *recrawl, at: unix_millis(), next: 0 }));
    tables.write(&batch)
}

/// Whether the last visit visits URLs that are due by how often they change, or that a sitemap makes due. A process that continues
/// it may not have the option.
pub(super) fn is_auto(view: &View) -> Result<bool, BackendError> {
    let Some(visit) = view.meta(VISIT)? else { return Ok(false) };
    let Recrawl { revisit_after } = serde_json::from_slice(&visit).map_err(|_| view.damaged())?;
    Ok(revisit_after == Some(RevisitAfter::Auto))
}

/// Records whether the visit has ended.
pub(super) fn set_ended(batch: &mut Batch, has_ended: bool) {
    batch.meta.insert(ENDED, vec![u8::from(has_ended)]);
}

fn read_begun(view: &View) -> Result<Option<StartedVisit>, BackendError> {
    let Some(begun) = view.meta(BEGUN)?.filter(|begun| !begun.is_empty()) else { return Ok(None) };
    serde_json::from_slice(&begun).map(Some).map_err(|_| view.damaged())
}

fn set_begun(batch: &mut Batch, begun: Option<&StartedVisit>) {
    batch.meta.insert(BEGUN, begun.map(to_json).unwrap_or_default());
}

/// Numbers can always be written as JSON.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Queues the URLs of a visit that has started.
fn queue_begun(
    tables: &Tables,
    key: HashKey,
    ResumedScope { scope, .. }: &ResumedScope,
) -> Result<(), BackendError> {
    let view = tables.view()?;
    if read_begun(&view)?.is_none() {
        return Ok(());
    }
    let listed_seeds = view.meta("seed_index")?.unwrap_or_default();
    let scope = (*scope).clone().with_seed_index(SeedIndex::from_bytes(key, &listed_seeds));
    drop(view);
    while queue_some(tables, key, &scope, ROWS_PER_COMMIT)? {}
    reset_hosts(tables)?;
    let mut batch = Batch { number: 1, ..Batch::default() };
    set_begun(&mut batch, None);
    tables.write(&batch)
}

/// Queues some URLs again, in one commit. Returns whether there may be more.
pub(super) fn queue_some(
    tables: &Tables,
    key: HashKey,
    scope: &Scope,
    max: usize,
) -> Result<bool, BackendError> {
    let view = tables.view()?;
    let Some(begun) = read_begun(&view)? else { return Ok(false) };
    let rows = view.completed_from(begun.next, max)?;
    let Some((last, _)) = rows.last() else { return Ok(false) };
    let next = last.checked_add(1).ok_or_else(|| view.damaged())?;
    let mut checkpoint = read_checkpoint(&view)?;
    let mut batch = Batch { number: 1, ..Batch::default() };
    for (task_id, row) in rows {
        let row = CompletedRow::from_bytes(&row).ok_or_else(|| view.damaged())?;
        if row.is_refetch {
            // The URL has another row, which is visited with all its links.
            batch.completed.insert(task_id, None);
            continue;
        }
        let task = pending(row.clone(), &view, key)?;
        point_seen_to(&mut batch, &view, key, task_id, &task)?;
        // It was pending when the visit before ended.
        let is_pending = view.task(task_id)?.is_some();
        if is_pending
            || !is_due(&view, key, &row, &begun)?
            || rejection(&view, scope, task_id, &task)?.is_some()
        {
            continue;
        }
        checkpoint.count_queued(&task.url);
        batch.tasks.insert(task_id, Some(task.to_bytes()));
    }
    batch.meta.insert("checkpoint", checkpoint.to_bytes());
    set_begun(&mut batch, Some(&StartedVisit { next, ..begun }));
    tables.write(&batch)?;
    Ok(true)
}

/// Makes a task the last one of its URL, in place of one that fetched the URL for its links only.
fn point_seen_to(
    batch: &mut Batch,
    view: &View,
    key: HashKey,
    task_id: u64,
    task: &TaskRow,
) -> Result<(), BackendError> {
    let id = key.url_id(&task.url);
    let Some(seen) = view.seen(id)?.and_then(|seen| SeenRow::from_bytes(&seen)) else { return Ok(()) };
    if seen.task_id.0 != task_id && view.task(seen.task_id.0)?.is_none() {
        batch.seen.set(id, SeenRow { task_id: TaskId(task_id), depth: seen.depth });
    }
    Ok(())
}

/// Whether a URL is due.
fn is_due(view: &View, key: HashKey, row: &CompletedRow, begun: &StartedVisit) -> Result<bool, BackendError> {
    let Some(after) = begun.recrawl.revisit_after else { return Ok(true) };
    if row.visits.due_at(row.completed_at, after) <= begun.at {
        return Ok(true);
    }
    if after != RevisitAfter::Auto {
        return Ok(false);
    }
    // Sitemaps name what is new, and what was modified.
    let is_sitemap = TaskKind::from_task_url(&row.url) == TaskKind::Sitemap;
    let lastmod = view.lastmod(key.url_id(&row.url))?;
    // A time in the future is no time of a change, and would make the URL due at every visit.
    let changes = row.completed_at + 1..=begun.at;
    Ok(is_sitemap || lastmod.is_some_and(|lastmod| changes.contains(&(u64::from(lastmod) * 1000))))
}

/// Sets the numbers of pages of hosts and sites to zero.
fn reset_hosts(tables: &Tables) -> Result<(), BackendError> {
    let mut after = String::new();
    loop {
        let view = tables.view()?;
        let rows = view.hosts_after(&after, ROWS_PER_COMMIT)?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        after.clone_from(last);
        let mut batch = Batch { number: 1, ..Batch::default() };
        for (host, row) in rows {
            let mut row = HostRow::from_bytes(&row).ok_or_else(|| view.damaged())?;
            if let Some(changed) = row.change(|row| row.pages = 0) {
                batch.hosts.insert(host, changed);
            }
        }
        if !batch.is_empty() {
            tables.write(&batch)?;
        }
    }
}
