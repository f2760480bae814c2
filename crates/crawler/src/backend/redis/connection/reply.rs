//! Reads answers of Redis out of the bytes that have come so far: its second protocol, RESP2.

use bytes::{Buf, BytesMut};
use redis::Value;

use super::failure::Failure;

/// How long one text of an answer may be: what Redis itself allows.
const LONGEST_TEXT: usize = 512 << 20;

/// How deep lists may be in lists; ours are three deep.
const DEEPEST: usize = 16;

/// An answer: a value, or an error that concerns this command alone.
pub(super) type Reply = Result<Value, Failure>;

/// Takes the next answer out of what was received, if all of it is there.
pub(super) fn next(received: &mut BytesMut) -> Result<Option<Reply>, Failure> {
    let mut reader = Reader { bytes: received, at: 0 };
    let Some(reply) = reader.reply(0)? else { return Ok(None) };
    let read = reader.at;
    received.advance(read);
    Ok(Some(reply))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Nothing where more has to come.
type Read<T> = Result<Option<T>, Failure>;

impl<'a> Reader<'a> {
    fn reply(&mut self, depth: usize) -> Read<Reply> {
        let Some(line) = self.line()? else { return Ok(None) };
        let Some((kind, rest)) = line.split_first() else { return Err(foreign(line)) };
        let value = match kind {
            b'+' if rest == b"OK" => Value::Okay,
            b'+' => Value::SimpleString(text(rest)),
            b'-' => return Ok(Some(Err(Failure::answered(&text(rest))))),
            b':' => Value::Int(number(line)?),
            b'$' => return self.text(number(line)?).map(|value| value.map(Ok)),
            b'*' => return self.list(number(line)?, depth),
            _ => return Err(foreign(line)),
        };
        Ok(Some(Ok(value)))
    }

    fn text(&mut self, length: i64) -> Read<Value> {
        let Ok(length) = usize::try_from(length) else { return Ok(Some(Value::Nil)) };
        if length > LONGEST_TEXT {
            return Err(Failure::Foreign(format!("an answer of {length} bytes")));
        }
        // Two more bytes end the line.
        let Some(bytes) = self.bytes.get(self.at..self.at + length + 2) else { return Ok(None) };
        self.at += length + 2;
        Ok(Some(Value::BulkString(bytes[..length].to_vec())))
    }

    /// A list with an error in it is that error.
    fn list(&mut self, length: i64, depth: usize) -> Read<Reply> {
        let Ok(length) = usize::try_from(length) else { return Ok(Some(Ok(Value::Nil))) };
        if depth == DEEPEST {
            return Err(Failure::Foreign("an answer of lists in lists in lists without end".into()));
        }
        // What a length promises need not come: no more room is made than for what is there.
        let mut values = Ok(Vec::with_capacity(length.min(self.bytes.len() - self.at)));
        for _ in 0..length {
            let Some(reply) = self.reply(depth + 1)? else { return Ok(None) };
            match (&mut values, reply) {
                (Ok(values), Ok(value)) => values.push(value),
                (Ok(_), Err(failure)) => values = Err(failure),
                (Err(_), _) => {}
            }
        }
        Ok(Some(values.map(Value::Array)))
    }

    /// Up to the end of the line, which is left out.
    fn line(&mut self) -> Read<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(end) = memchr::memchr(b'\r', rest) else {
            return if rest.len() > 64 << 10 { Err(foreign(rest)) } else { Ok(None) };
        };
        if end + 1 == rest.len() {
            return Ok(None);
        }
        self.at += end + 2;
        Ok(Some(&rest[..end]))
    }
}

fn number(line: &[u8]) -> Result<i64, Failure> {
    let digits = std::str::from_utf8(&line[1..]).ok();
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| foreign(line))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn foreign(line: &[u8]) -> Failure {
    let beginning = line[..line.len().min(40)].escape_ascii();
    Failure::Foreign(format!("it answered \"{beginning}\", which is not how Redis answers"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> (Vec<Reply>, usize) {
        let mut received = BytesMut::from(bytes);
        let mut replies = Vec::new();
        while let Some(reply) = next(&mut received).unwrap() {
            replies.push(reply);
        }
        (replies, received.len())
    }

    const ANSWERS: &[u8] =
        b"+OK\r\n:-12\r\n$5\r\na\r\nbc\r\n$-1\r\n*-1\r\n*2\r\n$0\r\n\r\n*1\r\n:1\r\n-OOM no more\r\n-no code\r\n+PONG\r\n";

    #[test]
    fn every_kind_of_answer_is_read() {
        let (replies, left) = all(ANSWERS);
        let text = |text: &str| Value::BulkString(text.into());
        assert_eq!(
            replies,
            [
                Ok(Value::Okay),
                Ok(Value::Int(-12)),
                Ok(text("a\r\nbc")),
                Ok(Value::Nil),
                Ok(Value::Nil),
                Ok(Value::Array(vec![text(""), Value::Array(vec![Value::Int(1)])])),
                Err(Failure::Refused { code: "OOM".into(), text: "OOM no more".into() }),
                Err(Failure::Refused { code: "ERR".into(), text: "no code".into() }),
                Ok(Value::SimpleString("PONG".into())),
            ]
        );
        assert_eq!(left, 0);
    }

    #[test]
    fn answers_may_come_in_any_pieces() {
        let whole = all(ANSWERS).0;
        for cut in 0..ANSWERS.len() {
            let mut received = BytesMut::from(&ANSWERS[..cut]);
            let mut replies = Vec::new();
            while let Some(reply) = next(&mut received).unwrap() {
                replies.push(reply);
            }
            received.extend_from_slice(&ANSWERS[cut..]);
            while let Some(reply) = next(&mut received).unwrap() {
                replies.push(reply);
            }
            assert_eq!(replies, whole, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_not_redis_is_recognised() {
        for bytes in
            ["HTTP/1.1 400 Bad Request\r\n\r\n", "$9999999999\r\n", ":x\r\n", "\r\n", "\u{15}\u{3}\r\n"]
        {
            assert!(matches!(next(&mut BytesMut::from(bytes)), Err(Failure::Foreign(_))), "{bytes:?}");
        }
        let deep = "*1\r\n".repeat(100);
        assert!(matches!(next(&mut BytesMut::from(deep.as_str())), Err(Failure::Foreign(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'),
            Just(b'*'), Just(b'$'), Just(b':'), Just(b'-'), any::<u8>(), b'0'..=b'9'], 0..200)) {
            let mut received = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = next(&mut received) {}
        }
    }
}
