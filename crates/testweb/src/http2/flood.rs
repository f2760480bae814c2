//! A flood of interim responses (1xx) over HTTP/2, written as bytes, because no library sends one.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// The length of the text with which a client starts.
const PREFACE_BYTES: usize = 24;
const HEADERS: u8 = 1;
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
/// `:status: 103` to stream 1, which adds the field to the table of the connection.
const FIRST: [u8; 14] = [0, 0, 5, HEADERS, 4, 0, 0, 0, 1, 0x48, 3, b'1', b'0', b'3'];
/// The same, by its place in the table.
const NEXT: [u8; 10] = [0, 0, 1, HEADERS, 4, 0, 0, 0, 1, 0xBE];

/// Responds to the first request of a connection with interim responses, until the client closes the connection.
pub(crate) async fn flood(mut socket: TlsStream<TcpStream>) -> io::Result<()> {
    socket.read_exact(&mut [0; PREFACE_BYTES]).await?;
    socket.write_all(&SETTINGS).await?;
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        socket.read_exact(&mut vec![0; length as usize]).await?;
        if head[3] == HEADERS {
            break;
        }
    }
    socket.write_all(&SETTINGS_ACK).await?;
    socket.write_all(&FIRST).await?;
    let many = NEXT.repeat(1_000);
    loop {
        socket.write_all(&many).await?;
    }
}
