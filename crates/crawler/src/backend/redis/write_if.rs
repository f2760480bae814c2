//! Commands that Redis runs in one step if conditions hold: what other processes write meanwhile is not overwritten.

use redis::ToRedisArgs;

use super::connection::Call;
use super::scripts;

/// The most fields that one command sets. Lua passes on no more than some 8,000 words.
const MAX_FIELDS: usize = 2_000;

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
        self.write((command, expected))
    }

    pub(super) fn write(mut self, command: impl ToRedisArgs) -> WriteIf {
        let words = command.to_redis_args();
        self.words.push(words.len().to_string().into_bytes());
        self.words.extend(words);
        self
    }

    /// Sets fields of a hash.
    pub(super) fn write_rows<F: ToRedisArgs, V: ToRedisArgs>(
        mut self,
        key: &str,
        rows: impl Iterator<Item = (F, V)>,
    ) -> WriteIf {
        let rows: Vec<(F, V)> = rows.collect();
        for rows in rows.chunks(MAX_FIELDS) {
            self = self.write(("HSET", key, rows));
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
        let write = WriteIf::default().write_rows("key", (0..5_000).map(|id| (id, 1)));
        let words = String::from_utf8(write.words.join(&b' ')).unwrap();
        let lengths: Vec<&str> = words
            .match_indices(" HSET")
            .map(|(at, _)| &words[..at])
            .map(|before| &before[before.len() - 4..])
            .collect();
        assert_eq!(lengths, ["4002", "4002", "2002"]);
    }
}
