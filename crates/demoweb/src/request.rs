//! A request, independent of the protocol version.

/// A request as the server received it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method, as sent.
    pub method: String,
    /// Path and query, as sent.
    pub path: String,
    /// `http` or `https`, depending on the listener.
    pub scheme: &'static str,
    /// The Host header (or `:authority` in HTTP/2), with the port.
    pub authority: String,
    /// All headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The protocol version.
    pub protocol: Protocol,
}

/// The protocol version of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
}

impl Request {
    /// The host name in lower case, without the port.
    pub fn host(&self) -> String {
        host_of(&self.authority).to_ascii_lowercase()
    }

    /// Scheme, host and port as the client sent them: `http://a.test:8080`.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// The value of the first header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// The host of an authority, without the port. An IPv6 address keeps its brackets.
pub fn host_of(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}
