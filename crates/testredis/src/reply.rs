//! The little of Redis's protocol that tests need: a command out, an answer in. Nothing here is shared with what is tested.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Error, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

/// How long an answer may take; a server that was paused does not answer at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// There is nothing.
    Nothing,
    /// A number.
    Number(i64),
    /// Bytes, or a word like `OK`.
    Bytes(Vec<u8>),
    /// Several.
    Many(Vec<Reply>),
    /// What went wrong.
    Wrong(String),
}

/// A connection to a server.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        self.read()
    }

    fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at_checked(1).ok_or(ErrorKind::InvalidData)?;
        let number = || rest.parse::<i64>().map_err(|_| Error::from(ErrorKind::InvalidData));
        Ok(match kind {
            "+" => Reply::Bytes(rest.into()),
            "-" => Reply::Wrong(rest.into()),
            ":" => Reply::Number(number()?),
            "$" | "*" if number()? < 0 => Reply::Nothing,
            "$" => {
                let mut bytes = vec![0; number()? as usize + 2];
                io::Read::read_exact(&mut self.0, &mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            "*" => Reply::Many((0..number()?).map(|_| self.read()).collect::<io::Result<_>>()?),
            _ => return Err(ErrorKind::InvalidData.into()),
        })
    }
}

/// What an answer can be read as.
pub trait FromReply: Sized {
    /// Reads it, or says what it is instead.
    fn from_reply(reply: Reply) -> Result<Self, Reply>;
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> Result<Self, Reply> {
        Ok(reply)
    }
}

impl FromReply for () {
    fn from_reply(reply: Reply) -> Result<Self, Reply> {
        if matches!(reply, Reply::Wrong(_)) { Err(reply) } else { Ok(()) }
    }
}

impl FromReply for Vec<u8> {
    fn from_reply(reply: Reply) -> Result<Self, Reply> {
        match reply {
            Reply::Bytes(bytes) => Ok(bytes),
            other => Err(other),
        }
    }
}

fn parsed<T: FromStr>(reply: Reply) -> Result<T, Reply> {
    let text = match &reply {
        Reply::Number(number) => Some(number.to_string()),
        Reply::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    };
    text.and_then(|text| text.parse().ok()).ok_or(reply)
}

macro_rules! parsed {
    ($($kind:ty)*) => {
        $(impl FromReply for $kind {
            fn from_reply(reply: Reply) -> Result<Self, Reply> {
                parsed(reply)
            }
        })*
    };
}

parsed! { String i64 u64 u32 u16 usize f64 }

impl<T: FromReply> FromReply for Option<T> {
    fn from_reply(reply: Reply) -> Result<Self, Reply> {
        if reply == Reply::Nothing { Ok(None) } else { T::from_reply(reply).map(Some) }
    }
}

// Vectors of bytes are bytes themselves, so what is in other vectors is named one by one.
macro_rules! many {
    ($($kind:ty)*) => {
        $(impl FromReply for Vec<$kind> {
            fn from_reply(reply: Reply) -> Result<Self, Reply> {
                match reply {
                    Reply::Many(replies) => replies.into_iter().map(FromReply::from_reply).collect(),
                    other => Err(other),
                }
            }
        })*
    };
}

many! { String i64 u64 usize Vec<u8> Option<String> Reply }

impl<K: FromReply + Ord, V: FromReply> FromReply for BTreeMap<K, V> {
    fn from_reply(reply: Reply) -> Result<Self, Reply> {
        let Reply::Many(replies) = reply else { return Err(reply) };
        let (mut map, mut replies) = (BTreeMap::new(), replies.into_iter());
        while let (Some(key), Some(value)) = (replies.next(), replies.next()) {
            map.insert(K::from_reply(key)?, V::from_reply(value)?);
        }
        Ok(map)
    }
}
