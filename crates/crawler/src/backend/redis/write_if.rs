//! Commands that Redis runs in one step if conditions hold: what other processes write meanwhile is not overwritten.

use redis::ToRedisArgs;

use super::connection::Call;
use super::scripts;

/// The most words of a command in a script. Lua passes on no more.
const MAX_WORDS: usize = 4_000;

/// The conditions, then the commands, each after the number of its words.
#[derive(Default)]
pub(super) struct WriteIf {
    conditions: usize,
    words: Vec<Vec<u8>>,
}

impl WriteIf {
    /// Adds a condition: this command must return this value, or nothing if the value is empty. Conditions come before writes.
    pub(super) fn condition(mut self, command: impl ToRedisArgs, expected: impl ToRedisArgs) -> WriteIf {
        self.conditions += 1;
        self.words.extend(expected.to_redis_args());
        self.write(command)
    }

    pub(super) fn write(mut self, command: impl ToRedisArgs) -> WriteIf {
        let command = command.to_redis_args();
        self.words.push(command.len().to_string().into_bytes());
        self.words.extend(command);
        self
    }

    /// Sets fields of a hash, or removes those without a value.
    pub(super) fn write_rows<F: ToRedisArgs, V: ToRedisArgs>(
        mut self,
        key: &str,
        rows: impl Iterator<Item = (F, Option<V>)>,
    ) -> WriteIf {
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for (field, value) in rows {
            match value {
                Some(value) => (field, value).write_redis_args(&mut set),
                None => field.write_redis_args(&mut removed),
            }
        }
        for (command, words) in [("HSET", set), ("HDEL", removed)] {
            for words in words.chunks(MAX_WORDS) {
                self = self.write((command, key, words));
            }
        }
        self
    }

    /// The script, which returns the number of the first condition that does not hold, or 0.
    pub(super) fn call(self, base: &str) -> Call {
        Call::script(&scripts::WRITE_IF, base).arg(self.conditions).arg(self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_split() {
        let rows = (0..5_000u64).map(|id| (id.to_le_bytes().to_vec(), Some(vec![1u8])));
        let words = WriteIf::default().write_rows("key", rows).words;
        let lengths: Vec<usize> =
            words.iter().filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect();
        assert_eq!(lengths.iter().filter(|length| **length > 1_000).count(), 3, "{lengths:?}");
    }
}
