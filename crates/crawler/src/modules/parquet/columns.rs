//! The columns of a row group: collects the values of rows, and writes them.
//!
//! A column of texts, numbers or times is one leaf of the schema, a list of pairs two. Of each leaf, Parquet stores the values, and
//! for each entry a definition level, which says whether there is a value, and for lists a repetition level, which says whether the
//! entry continues a list.

use std::fmt::Write as _;
use std::io::Write;

use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use bytes::Bytes;

use super::StoredValue;
use crate::modules::fields::FieldType;

/// The memory of an entry beyond its text: its levels and its length, or the number itself.
const ENTRY_BYTES: usize = 12;

/// A column, which may have no value in a row.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: FieldType,
}

/// The schema of a table with these columns, in the syntax of Parquet.
pub(super) fn schema(columns: &[Column]) -> String {
    let list = |name: &str, element: &str| {
        format!("optional group {name} (LIST) {{ repeated group list {{ {element} }} }}")
    };
    let mut schema = String::from("message page {\n");
    for Column { name, kind } in columns {
        let column = match kind {
            FieldType::Text => format!("optional binary {name} (STRING);"),
            FieldType::Integer => format!("optional int64 {name};"),
            FieldType::Boolean => format!("optional boolean {name};"),
            FieldType::Time => format!("optional int64 {name} (TIMESTAMP(MILLIS,true));"),
            FieldType::List => list(name, "required binary element (STRING);"),
            FieldType::Pairs => list(
                name,
                "required group element { required binary name (STRING); required binary value (STRING); }",
            ),
            FieldType::Durations(names) => {
                let durations: String = names.iter().map(|name| format!("required int64 {name}; ")).collect();
                format!("optional group {name} {{ {durations}}}")
            }
        };
        let _ = writeln!(schema, "  {column}");
    }
    schema + "}\n"
}

/// The values of some rows.
pub(super) struct RowGroup {
    columns: Vec<ColumnValues>,
    bytes: usize,
}

/// The values of one column, by leaf.
enum ColumnValues {
    Text(Leaf<Texts>),
    Integer(Leaf<Vec<i64>>),
    Boolean(Leaf<Vec<bool>>),
    List(Leaf<Texts>),
    Pairs(Leaf<Texts>, Leaf<Texts>),
    /// A leaf for each duration.
    Durations(Vec<Leaf<Vec<i64>>>),
}

/// The values of a leaf, and the levels of its entries.
#[derive(Default)]
struct Leaf<V> {
    values: V,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

/// Texts in one buffer.
#[derive(Default)]
struct Texts {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
        self.ends.push(self.text.len());
    }
}

impl<V> Leaf<V> {
    /// A row without a value.
    fn push_missing(&mut self) {
        self.push_levels(0, 0);
    }

    fn push_levels(&mut self, definition: i16, repetition: i16) {
        self.definitions.push(definition);
        self.repetitions.push(repetition);
    }

    /// A row that is a list: pushes each entry, and its levels.
    fn push_list<T>(&mut self, entries: impl ExactSizeIterator<Item = T>, mut push: impl FnMut(&mut V, T)) {
        if entries.len() == 0 {
            self.push_levels(1, 0);
        }
        for (index, entry) in entries.enumerate() {
            push(&mut self.values, entry);
            self.push_levels(2, i16::from(index > 0));
        }
    }
}

impl ColumnValues {
    fn new(kind: FieldType) -> ColumnValues {
        match kind {
            FieldType::Text => ColumnValues::Text(Leaf::default()),
            FieldType::Integer | FieldType::Time => ColumnValues::Integer(Leaf::default()),
            FieldType::Boolean => ColumnValues::Boolean(Leaf::default()),
            FieldType::List => ColumnValues::List(Leaf::default()),
            FieldType::Pairs => ColumnValues::Pairs(Leaf::default(), Leaf::default()),
            FieldType::Durations(names) => {
                ColumnValues::Durations(names.iter().map(|_| Leaf::default()).collect())
            }
        }
    }

    /// Adds the value of a row, and returns its size. Returns `None` if it is of another type.
    fn push(&mut self, value: StoredValue) -> Option<usize> {
        let entries = |entries: usize, text: usize| text + entries.max(1) * ENTRY_BYTES;
        Some(match (self, value) {
            (column, StoredValue::Missing) => {
                column.push_missing();
                entries(1, 0)
            }
            (ColumnValues::Text(leaf), StoredValue::Text(text)) => {
                leaf.values.push(&text);
                leaf.push_levels(1, 0);
                entries(1, text.len())
            }
            (ColumnValues::Integer(leaf), StoredValue::Integer(number)) => {
                leaf.values.push(number);
                leaf.push_levels(1, 0);
                entries(1, 0)
            }
            (ColumnValues::Boolean(leaf), StoredValue::Boolean(is_set)) => {
                leaf.values.push(is_set);
                leaf.push_levels(1, 0);
                entries(1, 0)
            }
            (ColumnValues::List(leaf), StoredValue::List(texts)) => {
                leaf.push_list(texts.iter(), |values, text| values.push(text));
                entries(texts.len(), texts.iter().map(|text| text.len()).sum())
            }
            (ColumnValues::Pairs(names, values), StoredValue::Pairs(pairs)) => {
                names.push_list(pairs.iter(), |texts, (name, _)| texts.push(name));
                values.push_list(pairs.iter(), |texts, (_, value)| texts.push(value));
                let text = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
                entries(2 * pairs.len(), text)
            }
            (ColumnValues::Durations(leaves), StoredValue::Durations(durations))
                if leaves.len() == durations.len() =>
            {
                for (leaf, duration) in leaves.iter_mut().zip(&durations) {
                    leaf.values.push(*duration);
                    leaf.push_levels(1, 0);
                }
                entries(durations.len(), 0)
            }
            _ => return None,
        })
    }

    fn push_missing(&mut self) {
        match self {
            ColumnValues::Text(leaf) | ColumnValues::List(leaf) => leaf.push_missing(),
            ColumnValues::Integer(leaf) => leaf.push_missing(),
            ColumnValues::Boolean(leaf) => leaf.push_missing(),
            ColumnValues::Pairs(names, values) => {
                names.push_missing();
                values.push_missing();
            }
            ColumnValues::Durations(leaves) => leaves.iter_mut().for_each(Leaf::push_missing),
        }
    }
}

impl RowGroup {
    pub(super) fn new(columns: &[Column]) -> RowGroup {
        RowGroup { columns: columns.iter().map(|column| ColumnValues::new(column.kind)).collect(), bytes: 0 }
    }

    /// Adds a row. Returns false if it does not have a value of the right type for each column.
    pub(super) fn push(&mut self, row: Vec<StoredValue>) -> bool {
        if row.len() != self.columns.len() {
            return false;
        }
        for (column, value) in self.columns.iter_mut().zip(row) {
            let Some(bytes) = column.push(value) else { return false };
            self.bytes += bytes;
        }
        true
    }

    /// The size of the rows in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the rows as a row group, if there are any, and removes them.
    pub(super) fn write<W: Write + Send>(&mut self, table: &mut SerializedFileWriter<W>) -> Result<()> {
        if std::mem::take(&mut self.bytes) == 0 {
            return Ok(());
        }
        let mut group = table.next_row_group()?;
        for column in &mut self.columns {
            match column {
                ColumnValues::Text(leaf) | ColumnValues::List(leaf) => leaf.write(&mut group)?,
                ColumnValues::Integer(leaf) => leaf.write(&mut group)?,
                ColumnValues::Boolean(leaf) => leaf.write(&mut group)?,
                ColumnValues::Pairs(names, values) => {
                    names.write(&mut group)?;
                    values.write(&mut group)?;
                }
                ColumnValues::Durations(leaves) => {
                    leaves.iter_mut().try_for_each(|leaf| leaf.write(&mut group))?;
                }
            }
        }
        group.close().map(drop)
    }
}

/// Values of a type that Parquet has.
trait LeafValues {
    type Type: DataType;

    /// Removes and returns the values.
    fn take(&mut self) -> Vec<<Self::Type as DataType>::T>;
}

impl LeafValues for Texts {
    type Type = ByteArrayType;

    fn take(&mut self) -> Vec<ByteArray> {
        let text = Bytes::from(std::mem::take(&mut self.text));
        let mut start = 0;
        let slice = |end| ByteArray::from(text.slice(std::mem::replace(&mut start, end)..end));
        std::mem::take(&mut self.ends).into_iter().map(slice).collect()
    }
}

impl LeafValues for Vec<i64> {
    type Type = Int64Type;

    fn take(&mut self) -> Vec<i64> {
        std::mem::take(self)
    }
}

impl LeafValues for Vec<bool> {
    type Type = BoolType;

    fn take(&mut self) -> Vec<bool> {
        std::mem::take(self)
    }
}

impl<V: LeafValues> Leaf<V> {
    /// Writes the leaf as the next one of a row group, and removes its values.
    fn write<W: Write + Send>(&mut self, group: &mut SerializedRowGroupWriter<W>) -> Result<()> {
        let values = self.values.take();
        let definitions = std::mem::take(&mut self.definitions);
        let repetitions = std::mem::take(&mut self.repetitions);
        let Some(mut column) = group.next_column()? else { return Ok(()) };
        // The repetition levels of a leaf that is not in a list are ignored.
        column.typed::<V::Type>().write_batch(&values, Some(&definitions), Some(&repetitions))?;
        column.close()
    }
}
