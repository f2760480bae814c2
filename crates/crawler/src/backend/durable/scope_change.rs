//! Completes pending URLs that the scope of a resumed crawl leaves out. Each would otherwise wait for its host's turn.

use std::time::SystemTime;

use super::super::{BackendError, TaskId};
use super::discovery;
use super::open::read_checkpoint;
use super::outputs::OpenOutputs;
use super::records::{CompletedRow, TaskRow, writes_to_bytes};
use super::{Batch, Tables, View};
use crate::backend::local::storage::unix_millis;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::scope::{RejectReason, Scope};
use crate::seed_list::SeedIndex;
use crate::similarity::HashKey;
use crate::task_kind::{TaskKind, shown_url};
use crate::url_record::UrlRecord;
use crate::visit::VisitRecord;

/// Number of pending URLs to check, and to complete in one commit.
const ROWS_PER_COMMIT: usize = 4096;

/// The scope of a resumed crawl.
pub struct ResumedScope<'s> {
    /// The scope.
    pub scope: &'s Scope,
    /// Called with the outcome of each URL that it leaves out.
    pub on_outcome: &'s dyn Fn(&str, &Outcome),
}

/// Completes the pending URLs that the scope leaves out, if it is another one than the state has recorded. Each commit moves
/// rows together with the counts.
pub(super) fn apply_scope(
    tables: &Tables,
    ResumedScope { scope, on_outcome }: &ResumedScope,
    key: HashKey,
    outputs: &impl OpenOutputs,
) -> Result<(), Error> {
    let view = tables.view()?;
    if view.meta("scope")?.as_deref() == Some(scope.settings().as_bytes()) {
        return Ok(());
    }
    let listed_seeds = view.meta("seed_index")?.unwrap_or_default();
    let scope = (*scope).clone().with_seed_index(SeedIndex::from_bytes(key, &listed_seeds));
    drop(view);
    let mut first = 0;
    loop {
        let view = tables.view()?;
        let rows = view.tasks_from(first, ROWS_PER_COMMIT)?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        first = last.checked_add(1).ok_or_else(|| view.damaged())?;
        let mut checkpoint = read_checkpoint(&view)?;
        let mut batch = Batch { number: 1, ..Batch::default() };
        let (mut rejected, mut written) = (Vec::new(), Vec::new());
        for (task_id, row) in rows {
            let row = TaskRow::from_bytes(&row).ok_or_else(|| view.damaged())?;
            let Some(why) = rejection(&view, &scope, task_id, &row)? else { continue };
            let outcome = Outcome::Rejected { why };
            checkpoint.count_completed(&row.url, &outcome.label());
            batch.tasks.insert(task_id, None);
            let visits = visits_of(&view, task_id, &row)?;
            batch.completed.insert(task_id, Some(completed(&row, &outcome, visits).to_bytes()));
            if outputs.wants_urls() {
                let writes = outputs.render_url(&record(&view, task_id, &row, &outcome)?);
                if !writes.is_empty() {
                    let sequence = checkpoint.count_writes();
                    batch.output.insert(sequence, writes_to_bytes(None, &writes));
                    written.push((sequence, writes));
                }
            }
            rejected.push((row.url, outcome));
        }
        if !rejected.is_empty() {
            batch.meta.insert("checkpoint", checkpoint.to_bytes());
            tables.write(&batch)?;
        }
        rejected.iter().for_each(|(url, outcome)| on_outcome(shown_url(url), outcome));
        for (sequence, writes) in written {
            outputs.write(sequence, None, writes)?;
        }
    }
}

/// Why the scope leaves a pending URL out, if it does.
pub(super) fn rejection(
    view: &View,
    scope: &Scope,
    task_id: u64,
    row: &TaskRow,
) -> Result<Option<RejectReason>, BackendError> {
    let is_seed = match TaskKind::from_task_url(&row.url) {
        // Its depth is another one: the number of indexes that led to it.
        TaskKind::Sitemap => row.from.0 == task_id,
        _ => row.depth == 0 && row.redirects == 0,
    };
    // A URL that is fetched again has an outcome already.
    if is_seed || row.is_refetch {
        return Ok(None);
    }
    let found_on = match TaskKind::from_task_url(&row.url) {
        TaskKind::Requisite => view.url_and_source(row.from)?.map(|(url, _)| url),
        _ => None,
    };
    Ok(scope.check_task(&row.url, found_on.as_deref()).err())
}

/// What is remembered of the visits of a URL.
fn visits_of(view: &View, task_id: u64, row: &TaskRow) -> Result<VisitRecord, BackendError> {
    if !row.was_visited {
        return Ok(VisitRecord::default());
    }
    let last = view.completed(task_id)?.and_then(|row| CompletedRow::from_bytes(&row));
    last.map(|row| row.visits).ok_or_else(|| view.damaged())
}

fn record(
    view: &View,
    task_id: u64,
    row: &TaskRow,
    outcome: &Outcome,
) -> Result<UrlRecord<'static>, BackendError> {
    let discovery = discovery::look_up(row.as_task(TaskId(task_id)), |task_id| view.url_and_source(task_id))?;
    let (url, outcome, depth) = (row.url.as_str().into(), outcome.clone(), row.depth);
    let done = Some(SystemTime::now());
    Ok(UrlRecord { done, ..UrlRecord::new(url, outcome, depth, discovery, row.queued_at) })
}

fn completed(row: &TaskRow, outcome: &Outcome, visits: VisitRecord) -> CompletedRow {
    CompletedRow {
        from: row.from,
        depth: row.depth,
        redirects: row.redirects,
        is_temporary: outcome.is_temporary(),
        is_refetch: row.is_refetch,
        page_number: 0,
        completed_at: unix_millis(),
        url: row.url.clone(),
        outcome: outcome.to_string(),
        visits,
    }
}
