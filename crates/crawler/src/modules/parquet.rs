//! Pages as a Parquet table: a row per page, with typed columns, in compressed row groups.

mod columns;

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use serde::{Deserialize, Serialize};

use self::columns::{Column, RowGroup};
use super::fields::{Fields, Value};
use super::output::finish::{Finisher, Records, push_record};
use super::output::new_file::NewFile;
use super::{BuiltinOutput, OutputWrite};
use crate::error::StorageError;
use crate::page::Page;

/// A row group is written when its values have this many bytes. The memory that the table takes while it is made is about three
/// times as much: the values, and their pages while they are encoded and compressed.
const ROW_GROUP_BYTES: usize = 32 * 1024 * 1024;

/// How many values are encoded at a time. The size of a page is checked after each batch, and texts are long.
const BATCH_VALUES: usize = 64;

/// A row per page, with these fields as columns.
#[derive(Debug, Clone)]
pub struct ParquetTable {
    fields: Fields,
    format: String,
}

impl ParquetTable {
    pub(super) fn new(fields: Fields) -> ParquetTable {
        // The records have values without names, so the format names all fields, also if they are the default.
        let format = format!("parquet,fields={}", fields.names());
        ParquetTable { fields, format }
    }

    fn write(&self, records: &Records, file: &mut NewFile) -> Result<(), WriteError> {
        let columns: Vec<Column> =
            self.fields.iter().map(|field| Column { name: field.name, kind: field.kind }).collect();
        let schema = Arc::new(parse_message_type(&columns::schema(&columns))?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_write_batch_size(BATCH_VALUES)
            .set_created_by(format!("crawler version {}", env!("CARGO_PKG_VERSION")))
            .build();
        let mut table = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
        let mut group = RowGroup::new(&columns);
        let (mut reader, mut record) = (records.read()?, Vec::new());
        while reader.next(&mut record)? {
            let row: Vec<StoredValue> = postcard::from_bytes(&record).map_err(|_| records.damaged())?;
            if !group.push(row) {
                return Err(records.damaged().into());
            }
            if group.bytes() >= ROW_GROUP_BYTES {
                group.write(&mut table)?;
            }
        }
        group.write(&mut table)?;
        table.close()?;
        Ok(())
    }
}

impl BuiltinOutput for ParquetTable {
    fn name(&self) -> &str {
        "parquet"
    }

    fn format(&self) -> String {
        self.format.clone()
    }

    fn finisher(&self) -> Option<&dyn Finisher> {
        Some(self)
    }

    fn wants_found_on(&self) -> bool {
        self.fields.want_found_on()
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let row: Vec<StoredValue> =
            self.fields.iter().map(|field| StoredValue::from(field.value(page))).collect();
        let record = postcard::to_stdvec(&row).expect("texts and numbers are always encoded");
        let mut bytes = Vec::with_capacity(record.len() + 8);
        push_record(&mut bytes, &record);
        OutputWrite::Append(bytes)
    }
}

impl Finisher for ParquetTable {
    fn finish(&self, records: &Records, target: &Path) -> Result<(), StorageError> {
        let mut file = NewFile::create(target)?;
        self.write(records, &mut file).map_err(|error| match error {
            WriteError::Records(error) => error,
            WriteError::Table(error) => file.error(error),
        })?;
        file.finish()
    }
}

/// Why a table was not written: the records cannot be read, or the file cannot be written.
enum WriteError {
    Records(StorageError),
    Table(io::Error),
}

impl From<StorageError> for WriteError {
    fn from(error: StorageError) -> WriteError {
        WriteError::Records(error)
    }
}

impl From<ParquetError> for WriteError {
    fn from(error: ParquetError) -> WriteError {
        WriteError::Table(match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(cause) => io::Error::other(cause),
            },
            error => io::Error::other(error),
        })
    }
}

/// A value in a record.
#[derive(Debug, Serialize, Deserialize)]
enum StoredValue<'v> {
    Missing,
    #[serde(borrow)]
    Text(Cow<'v, str>),
    Integer(i64),
    Boolean(bool),
    #[serde(borrow)]
    List(Vec<&'v str>),
    #[serde(borrow)]
    Pairs(Vec<(&'v str, Cow<'v, str>)>),
    Durations(Vec<i64>),
}

impl<'v> From<Value<'v>> for StoredValue<'v> {
    fn from(value: Value<'v>) -> StoredValue<'v> {
        let integer = |number| i64::try_from(number).unwrap_or(i64::MAX);
        match value {
            Value::Missing => StoredValue::Missing,
            Value::Text(text) => StoredValue::Text(text),
            Value::Integer(number) => StoredValue::Integer(integer(number)),
            Value::Boolean(is_set) => StoredValue::Boolean(is_set),
            Value::Time(time) => StoredValue::Integer(unix_milliseconds(time)),
            Value::List(texts) => StoredValue::List(texts),
            Value::Pairs(pairs) => StoredValue::Pairs(pairs),
            Value::Durations(durations) => StoredValue::Durations(
                durations.iter().map(|(_, milliseconds)| integer(*milliseconds)).collect(),
            ),
        }
    }
}

fn unix_milliseconds(time: SystemTime) -> i64 {
    let milliseconds = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => milliseconds(since),
        Err(before) => -milliseconds(before.duration()),
    }
}

#[cfg(test)]
mod tests;
