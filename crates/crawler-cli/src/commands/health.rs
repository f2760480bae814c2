//! Checks whether a process that serves metrics is healthy: `crawler health`, for containers without an HTTP client.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::args::HealthArgs;
use crate::printable::{print_error, print_stdout, printable};
use crate::{EXIT_FAILED, EXIT_USAGE};

/// How long to wait for the connection, and for each part of the response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The response is a line of text after its headers.
const MAX_RESPONSE: u64 = 16 * 1024;

/// Prints the reply, and returns the exit status: 0 if the process is healthy.
pub fn run(args: &HealthArgs) -> u8 {
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let response = match get(args.address(), path) {
        Ok(response) => response,
        Err(error) => {
            print_error(&format!("cannot query the process at {}: {error}", args.address()));
            return EXIT_FAILED;
        }
    };
    let status = response.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body).trim();
    match status {
        Some("200") if print_stdout(&format!("{}\n", printable(body))) => 0,
        Some("200") => EXIT_FAILED,
        Some("503") => {
            print_error(&format!("not {}: {body}", if args.ready { "ready" } else { "healthy" }));
            EXIT_FAILED
        }
        _ => {
            print_error(&format!(
                "the process at {} does not serve {path}; give the address of --metrics",
                args.address()
            ));
            EXIT_USAGE
        }
    }
}

fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&address, TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    connection.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut response = Vec::new();
    connection.take(MAX_RESPONSE).read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}
