//! Commands that Redis runs in one step if conditions hold: what other processes write meanwhile is not overwritten.

use redis::{Arg, Cmd, ToRedisArgs};

use super::connection::Call;
use super::scripts;

/// The most words of a command in a script. Lua passes on no more.
const MAX_WORDS: usize = 4_000;

/// The conditions, then the commands, each after the number of its words.
#[derive(Default)]
pub(super) struct WriteIf {
    conditions: usize,
    /// The words of all commands, one after the other: a batch has hundreds.
    words: Cmd,
    /// The number of words before each command.
    starts: Vec<usize>,
}

impl WriteIf {
    /// Adds a condition: this command must return this value, or nothing if the value is empty. Conditions come before writes.
    pub(super) fn condition(mut self, command: impl ToRedisArgs, expected: impl ToRedisArgs) -> WriteIf {
        self.conditions += 1;
        self = self.write(command);
        self.words.arg(expected);
        self
    }

    pub(super) fn write(mut self, command: impl ToRedisArgs) -> WriteIf {
        self.start();
        self.words.arg(command);
        self
    }

    /// Sets fields of a hash, or removes those without a value.
    pub(super) fn write_rows<F: AsRef<[u8]>, V: ToRedisArgs>(
        mut self,
        key: &str,
        rows: impl Iterator<Item = (F, Option<V>)>,
    ) -> WriteIf {
        let mut removed = Vec::new();
        let set = rows.filter_map(|(field, value)| match value {
            Some(value) => Some((field, value)),
            None => {
                removed.push(field);
                None
            }
        });
        for (index, (field, value)) in set.enumerate() {
            if index % (MAX_WORDS / 2) == 0 {
                self.start();
                self.words.arg("HSET").arg(key);
            }
            self.words.arg(field.as_ref()).arg(value);
        }
        for fields in removed.chunks(MAX_WORDS) {
            self.start();
            self.words.arg("HDEL").arg(key);
            for field in fields {
                self.words.arg(field.as_ref());
            }
        }
        self
    }

    /// Starts a command.
    fn start(&mut self) {
        self.starts.push(self.words.args_iter().len());
    }

    /// The script, which returns the number of the first condition that does not hold, or 0.
    pub(super) fn call(self, base: &str) -> Call {
        let WriteIf { conditions, words, starts } = self;
        let mut call = Call::script(&scripts::WRITE_IF, base).arg(conditions);
        let (mut words, count) = (words.args_iter(), words.args_iter().len());
        let ends = starts.iter().skip(1).copied().chain([count]);
        for (start, end) in starts.iter().zip(ends) {
            call = call.arg(end - start);
            for word in words.by_ref().take(end - start) {
                if let Arg::Simple(word) = word {
                    call = call.arg(word);
                }
            }
        }
        call
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_split() {
        let rows = (0..5_000u64).map(|id| (id.to_le_bytes(), Some(&[1u8][..])));
        let write = WriteIf::default().write_rows("key", rows);
        let ends = write.starts.iter().skip(1).copied().chain([write.words.args_iter().len()]);
        let lengths: Vec<usize> = ends.zip(&write.starts).map(|(end, start)| end - start).collect();
        assert_eq!(lengths, [4_002, 4_002, 2_002]);
    }
}
