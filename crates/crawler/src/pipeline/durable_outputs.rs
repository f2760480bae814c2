//! Opens the outputs of a durable crawl: new ones, or those of its state, of which some may be added and removed now.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use super::{Crawler, retried_rows};
use crate::backend::durable::{OpenOutputs, RecordedOutput, StateOutputs};
use crate::error::{Error, StorageError, StorageErrorKind};
use crate::modules::output::OutputPosition;
use crate::modules::output::files::{OpenTarget, OutputFiles, Start};
use crate::modules::page_pipeline::{self, PagePipeline};

impl Crawler {
    /// Opens the outputs, and writes what the state has recorded for them.
    pub(super) fn open_durable_outputs(&mut self, state: &StateOutputs) -> Result<Arc<PagePipeline>, Error> {
        if state.outputs_written()?.is_none() {
            let outputs = self.outputs_from(1);
            let pipeline = self.open_outputs(self.fresh_start())?;
            state.record_outputs(&outputs, OutputPosition::default(), &vec![0; outputs.len()])?;
            pipeline.set_archived_since(archived_since(&outputs));
            return Ok(pipeline);
        }
        retried_rows::replace_files(state)?;
        let removed_failure = self.change_outputs(state)?;
        if self.retry_failed {
            retried_rows::remove(&self.outputs, state)?;
        }
        let (written, lengths) = state.outputs_written()?.unwrap_or_default();
        let pipeline = self.open_outputs(Start::Resumed { committed: &lengths, written })?;
        state.replay(written, |sequence, page, writes| {
            OpenOutputs::write(&pipeline, sequence, page, writes)
        })?;
        pipeline.check_position(state.position)?;
        pipeline.resume_outputs();
        pipeline.set_archived_since(archived_since(&state.outputs()?));
        if let Some(failure) = removed_failure {
            pipeline.removed_output_failed(&failure);
        }
        Ok(pipeline)
    }

    /// The outputs as they are recorded, if they are added before a page.
    fn outputs_from(&self, page: u64) -> Vec<RecordedOutput> {
        self.outputs.iter().map(|spec| RecordedOutput::new(spec, page)).collect()
    }

    /// Brings the outputs that the state has recorded to those given now, and puts these in the recorded order. Outputs that
    /// are removed get all pages so far first; if that fails, the failure is returned. Outputs that are added start with the
    /// next page.
    fn change_outputs(&mut self, state: &StateOutputs) -> Result<Option<StorageError>, Error> {
        let recorded = state.outputs()?;
        let position = |output: &RecordedOutput| recorded.iter().position(|known| known.is_same(output));
        self.outputs.sort_by_key(|spec| position(&RecordedOutput::new(spec, 0)).unwrap_or(usize::MAX));
        let given = self.outputs_from(state.position.page + 1);
        let is_given = |output: &RecordedOutput| given.iter().any(|other| other.is_same(output));
        let (kept, removed): (Vec<usize>, Vec<usize>) =
            (0..recorded.len()).partition(|index| is_given(&recorded[*index]));
        let added = &given[kept.len()..];
        if removed.is_empty() && added.is_empty() {
            return Ok(None);
        }
        check_formats(added, &recorded)?;
        // Their files must be new, and may be truncated once they are recorded.
        let start = self.fresh_start();
        drop(OutputFiles::open(&self.outputs[kept.len()..], start).map_err(Error::Output)?);
        let written = WrittenOutputs::new(state, &recorded)?;
        let mut new_lengths = written.complete(&kept)?;
        let completed = written.complete(&removed).and_then(|_| {
            removed.iter().try_for_each(|index| recorded[*index].finish()).map_err(Error::Output)
        });
        let completed = match completed {
            Ok(()) => Ok(()),
            Err(Error::Output(failure)) => Err(failure),
            Err(error) => return Err(error),
        };
        let mut outputs: Vec<RecordedOutput> = kept.iter().map(|index| recorded[*index].clone()).collect();
        outputs.extend_from_slice(added);
        new_lengths.extend(added.iter().map(RecordedOutput::length_without_pages));
        state.record_outputs(&outputs, state.position, &new_lengths)?;
        let records_removed =
            completed.and_then(|()| removed.iter().try_for_each(|index| recorded[*index].remove_records()));
        Ok(records_removed.err())
    }
}

/// When the last archive was added, if there is one: all archives have what was requested since.
fn archived_since(outputs: &[RecordedOutput]) -> Option<SystemTime> {
    outputs.iter().filter_map(RecordedOutput::archived_since).max()
}

/// Refuses to write to a recorded file in another format.
fn check_formats(added: &[RecordedOutput], recorded: &[RecordedOutput]) -> Result<(), Error> {
    for output in added {
        if let Some(known) = recorded.iter().find(|known| known.path == output.path) {
            let message = format!(
                "cannot resume: the output '{}' was written by {}, and would be written by {} now; its format cannot \
                 change, because it has pages; name another file",
                output.path.display(),
                known.format,
                output.format
            );
            return Err(Error::State(StorageError::new(StorageErrorKind::SettingsDiffer, message)));
        }
    }
    Ok(())
}

/// The outputs of a state, and how far they are written.
pub(super) struct WrittenOutputs<'s> {
    state: &'s StateOutputs<'s>,
    outputs: &'s [RecordedOutput],
    position: OutputPosition,
    lengths: Vec<u64>,
}

impl<'s> WrittenOutputs<'s> {
    /// The outputs that the state has recorded.
    pub(super) fn new(
        state: &'s StateOutputs,
        outputs: &'s [RecordedOutput],
    ) -> Result<WrittenOutputs<'s>, Error> {
        let (position, lengths) = state.outputs_written()?.unwrap_or_default();
        Ok(WrittenOutputs { state, outputs, position, lengths })
    }

    /// Writes what the state has recorded for all outputs, and returns their lengths.
    pub(super) fn complete_all(&self) -> Result<Vec<u64>, Error> {
        self.complete(&(0..self.outputs.len()).collect::<Vec<_>>())
    }

    /// Writes what the state has recorded for some of the outputs, and returns their lengths.
    fn complete(&self, indexes: &[usize]) -> Result<Vec<u64>, Error> {
        if indexes.is_empty() {
            return Ok(Vec::new());
        }
        let outputs: Vec<&RecordedOutput> = indexes.iter().map(|index| &self.outputs[*index]).collect();
        let targets: Vec<OpenTarget> = outputs.iter().map(|output| output.open_target()).collect();
        let lengths: Vec<u64> =
            indexes.iter().filter_map(|index| self.lengths.get(*index).copied()).collect();
        let start = Start::Resumed { committed: &lengths, written: self.position };
        let mut files = OutputFiles::open_targets(&targets, start).map_err(Error::Output)?;
        let positions: HashMap<usize, usize> = indexes.iter().copied().zip(0..).collect();
        self.state.replay(self.position, |sequence, page, writes| {
            let writes =
                writes.into_iter().filter_map(|(index, write)| Some((*positions.get(&index)?, write)));
            files.apply(sequence, page, &writes.collect::<Vec<_>>()).map_err(Error::Output)
        })?;
        page_pipeline::check_position(files.position(), self.state.position)?;
        files.sync().map_err(Error::Output)?;
        Ok(files.lengths())
    }
}
