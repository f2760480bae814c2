//! A transaction: commands that a server runs in one step, if keys have the values that they are expected to have.

use std::sync::{MutexGuard, PoisonError};

use redis::{Cmd, Pipeline, ToRedisArgs, Value, cmd};

use super::failure::CommandFailure;
use super::link::Client;
use super::{Call, CallTarget};

/// The most words of a command. Redis refuses those with more than a million.
const MAX_WORDS: usize = 100_000;

/// The commands. What the keys have is read again with each transaction, for the next one: so it takes one round trip.
///
/// Only one task at a time may send transactions through a connection, and all of them watch the same keys.
pub(in super::super) struct Transaction {
    keys: Vec<String>,
    /// The values of the keys; an empty one if there is no such key.
    expected: Vec<String>,
    commands: Pipeline,
}

impl Transaction {
    /// A transaction without commands.
    pub(in super::super) fn new(conditions: impl IntoIterator<Item = (String, String)>) -> Transaction {
        let (keys, expected) = conditions.into_iter().unzip();
        let mut commands = redis::pipe();
        commands.add_command(cmd("MULTI"));
        Transaction { keys, expected, commands }
    }

    pub(in super::super) fn write(&mut self, command: impl ToRedisArgs) {
        let mut words = Cmd::new();
        words.arg(command);
        self.commands.add_command(words);
    }

    /// Sets fields of a hash, or removes those without a value.
    pub(in super::super) fn write_rows<F: AsRef<[u8]>, V: ToRedisArgs>(
        &mut self,
        key: &str,
        rows: impl Iterator<Item = (F, Option<V>)>,
    ) {
        let start = |name| {
            let mut command = cmd(name);
            command.arg(key);
            command
        };
        let (mut set, mut removed) = (start("HSET"), start("HDEL"));
        for (field, value) in rows {
            let (command, name) = if value.is_some() { (&mut set, "HSET") } else { (&mut removed, "HDEL") };
            command.arg(field.as_ref()).arg(value);
            if command.args_iter().len() >= MAX_WORDS {
                self.commands.add_command(std::mem::replace(command, start(name)));
            }
        }
        for command in [set, removed] {
            if command.args_iter().len() > 2 {
                self.commands.add_command(command);
            }
        }
    }

    /// The call. It returns the number of the first key that has another value, or 0 if the commands were run.
    pub(in super::super) fn call(mut self, base: &str) -> Call {
        self.commands.add_command(cmd("EXEC"));
        for command in self.watch_commands() {
            self.commands.add_command(command);
        }
        Call { transaction: Some(self), ..Call::with_target("", CallTarget::Key(base.to_owned())) }
    }

    /// The commands after which the keys are watched, and which return their values.
    fn watch_commands(&self) -> [Cmd; 2] {
        ["WATCH", "MGET"].map(|name| {
            let mut command = cmd(name);
            command.arg(&self.keys);
            command
        })
    }

    /// The index of the first key that has another value than it should have.
    fn unexpected(&self, values: &Value) -> Option<usize> {
        let values: Vec<Option<String>> = redis::from_redis_value(values.clone()).unwrap_or_default();
        self.expected
            .iter()
            .zip(values.into_iter().chain(std::iter::repeat(None)))
            .position(|(expected, value)| *expected != value.unwrap_or_default())
    }
}

impl Client {
    /// Runs a transaction, again if a key was written meanwhile.
    pub(super) async fn transact(&self, transaction: &Transaction) -> Result<Value, CommandFailure> {
        loop {
            let read_before = self.watched().take();
            let values = match read_before {
                Some(values) => values,
                None => {
                    let mut watch = redis::pipe();
                    for command in transaction.watch_commands() {
                        watch.add_command(command);
                    }
                    self.query_pipeline(&watch).await?.pop().unwrap_or(Value::Nil)
                }
            };
            if let Some(index) = transaction.unexpected(&values) {
                return Ok(Value::Int(index as i64 + 1));
            }
            let mut replies = self.query_pipeline(&transaction.commands).await?;
            *self.watched() = replies.pop();
            let executed = replies.len().checked_sub(2).map(|index| replies.swap_remove(index));
            if executed != Some(Value::Nil) {
                return Ok(Value::Int(0));
            }
        }
    }

    fn watched(&self) -> MutexGuard<'_, Option<Value>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_split() {
        let mut transaction = Transaction::new([]);
        let rows = |ids: std::ops::Range<u64>| ids.map(|id| (id.to_le_bytes(), (id % 2 == 0).then_some(1)));
        transaction.write_rows("key", rows(0..120_000));
        let lengths: Vec<usize> =
            transaction.commands.cmd_iter().map(|command| command.args_iter().len()).collect();
        assert_eq!(lengths, [1, MAX_WORDS, 20_004, 60_002]);
    }
}
