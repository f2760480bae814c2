//! A minimal client of the Redis protocol (RESP2), independent of the client that is tested.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Error, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

/// Timeout for a connection and for a reply. A paused server does not reply at all.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A reply of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A null reply.
    Null,
    /// An integer.
    Number(i64),
    /// A bulk string, or a simple string like `OK`.
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Reply>),
    /// An error.
    Error(String),
}

/// A connection to a server.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    pub(crate) fn query(&mut self, arguments: &[&str]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", arguments.len());
        for argument in arguments {
            request += &format!("${}\r\n{argument}\r\n", argument.len());
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
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Number(number()?),
            "$" | "*" if number()? < 0 => Reply::Null,
            "$" => {
                let mut bytes = vec![0; number()? as usize + 2];
                io::Read::read_exact(&mut self.0, &mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            "*" => Reply::Array((0..number()?).map(|_| self.read()).collect::<io::Result<_>>()?),
            _ => return Err(ErrorKind::InvalidData.into()),
        })
    }
}

/// A type that a reply can be converted to.
pub trait FromReply: Sized {
    /// Converts a reply, or returns it if it has another type.
    fn from_reply(reply: Reply) -> Result<Self, Reply>;
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> Result<Self, Reply> {
        Ok(reply)
    }
}

impl FromReply for () {
    fn from_reply(reply: Reply) -> Result<Self, Reply> {
        if matches!(reply, Reply::Error(_)) { Err(reply) } else { Ok(()) }
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
        if reply == Reply::Null { Ok(None) } else { T::from_reply(reply).map(Some) }
    }
}

// `Vec<u8>` is a string, so the element types of arrays are listed one by one.
macro_rules! arrays {
    ($($kind:ty)*) => {
        $(impl FromReply for Vec<$kind> {
            fn from_reply(reply: Reply) -> Result<Self, Reply> {
                match reply {
                    Reply::Array(replies) => replies.into_iter().map(FromReply::from_reply).collect(),
                    other => Err(other),
                }
            }
        })*
    };
}

arrays! { String i64 u64 usize Vec<u8> Option<String> Reply }

impl<K: FromReply + Ord, V: FromReply> FromReply for BTreeMap<K, V> {
    fn from_reply(reply: Reply) -> Result<Self, Reply> {
        let Reply::Array(replies) = reply else { return Err(reply) };
        let (mut map, mut replies) = (BTreeMap::new(), replies.into_iter());
        while let (Some(key), Some(value)) = (replies.next(), replies.next()) {
            map.insert(K::from_reply(key)?, V::from_reply(value)?);
        }
        Ok(map)
    }
}
