//! The address of Redis: one server, the seeds of a cluster, or the Sentinels that know a primary. Its password is in no message.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Host;

use crate::error::Error;

/// The default ports.
const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// The address of Redis, with user name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Whether it is `rediss`, with TLS.
    pub(super) tls: bool,
    /// One server, the seeds of a cluster, or Sentinels.
    pub(super) nodes: Vec<ServerAddress>,
    /// The name under which the Sentinels know the primary.
    pub(super) primary: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: u32,
}

/// A server or a Sentinel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ServerAddress {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Address {
    /// Parses an address. A password from elsewhere is used if the address has none.
    pub fn parse(text: &str, password: Option<&str>) -> Result<Address, Error> {
        parse(text, password).map_err(|cause| {
            let message =
                format!("cannot use the address of Redis: {cause}; give one like redis://host:6379/0");
            Error::InvalidSetting(message)
        })
    }

    /// The address with its password, for the environment of a child process. It must not be in arguments or messages.
    pub fn with_secrets(&self) -> String {
        let quoted = |text: &Option<String>| {
            utf8_percent_encode(text.as_deref().unwrap_or_default(), NON_ALPHANUMERIC).to_string()
        };
        match self.password {
            None => self.to_text(""),
            Some(_) => self.to_text(&format!("{}:{}@", quoted(&self.user), quoted(&self.password))),
        }
    }

    fn to_text(&self, credentials: &str) -> String {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let (sentinel, primary) = match &self.primary {
            Some(primary) => ("+sentinel", format!("/{primary}")),
            None => ("", String::new()),
        };
        let nodes: Vec<String> = self.nodes.iter().map(ServerAddress::to_string).collect();
        let database = if self.database == 0 { String::new() } else { format!("/{}", self.database) };
        format!("{scheme}{sentinel}://{credentials}{}{primary}{database}", nodes.join(","))
    }
}

/// Without user name and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text(""))
    }
}

/// Without user name and password, so that they are in no log.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address, Error> {
        Address::parse(text, None)
    }
}

/// An error repeats only the part of the address that is wrong, which is never the password.
fn parse(text: &str, password: Option<&str>) -> Result<Address, String> {
    let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
    let (tls, has_sentinels) = match scheme {
        "redis" => (false, false),
        "rediss" => (true, false),
        "redis+sentinel" => (false, true),
        "rediss+sentinel" => (true, true),
        _ => {
            return Err(format!(
                "its scheme is '{scheme}', and not redis, rediss or one of them with +sentinel"
            ));
        }
    };
    if rest.ends_with("#insecure") {
        return Err("#insecure is not supported, because it would let others read and change the crawl; \
                    trust the certificate of the server by its CA file instead"
            .into());
    }
    // The password may have any character, so it is cut off first.
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (parse_credentials(credentials)?, rest),
        None => ((None, None), rest),
    };
    if rest.contains(['?', '#']) {
        return Err("it has a query or a fragment, which mean nothing here".into());
    }
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let port = if has_sentinels { SENTINEL_PORT } else { SERVER_PORT };
    let nodes = hosts.split(',').map(|host| parse_node(host, port)).collect::<Result<_, _>>()?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let (primary, database) = match (has_sentinels, path.split_once('/')) {
        (false, _) => (None, path),
        (true, None) => (Some(parse_primary(path)?), ""),
        (true, Some((primary, database))) => (Some(parse_primary(primary)?), database),
    };
    let database = match database {
        "" => 0,
        text => text.parse().map_err(|_| format!("its database is '{text}', and not a number like 0"))?,
    };
    let (user, own_password) = credentials;
    let password = own_password.or(password.filter(|password| !password.is_empty()).map(str::to_owned));
    if user.is_some() && password.is_none() {
        return Err("it has a user name and no password".into());
    }
    Ok(Address { tls, nodes, primary, user, password, database })
}

fn parse_node(text: &str, default_port: u16) -> Result<ServerAddress, String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    if host.is_empty() {
        return Err("it has no host".into());
    }
    let host = match Host::parse(host).map_err(|error| format!("'{host}' is no host: {error}"))? {
        Host::Domain(name) => name,
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    let port = match port.map(str::parse) {
        None => default_port,
        Some(Ok(port @ 1..)) => port,
        Some(_) => return Err(format!("the port of {host} is not a number from 1 to 65535")),
    };
    Ok(ServerAddress { host, port })
}

fn parse_primary(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match text {
        "" => Err("it has no name of the primary that the Sentinels know: \
                   redis+sentinel://host:26379/NAME"
            .into()),
        _ if text.bytes().all(is_allowed) => Ok(text.to_owned()),
        _ => Err(format!("'{text}' is no name of a primary")),
    }
}

/// The user name and the password, as far as there are any.
fn parse_credentials(text: &str) -> Result<(Option<String>, Option<String>), String> {
    let decode = |text: &str| match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(Some(text.into_owned()).filter(|text| !text.is_empty())),
        Err(_) => Err("its user name or password is not UTF-8".to_owned()),
    };
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    Ok((decode(user)?, decode(password)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    fn error(text: &str) -> String {
        Address::parse(text, None).unwrap_err().to_string()
    }

    #[test]
    fn an_address_is_a_server_the_seeds_of_a_cluster_or_the_sentinels_of_a_primary() {
        let plain = address("redis://example.test");
        assert_eq!(plain.nodes, [ServerAddress { host: "example.test".into(), port: 6379 }]);
        assert!(!plain.tls && plain.primary.is_none() && plain.database == 0);
        let cluster = address("rediss://10.0.0.1:7000,[::1]:7001,other/");
        assert_eq!(
            cluster.nodes.iter().map(ServerAddress::to_string).collect::<Vec<_>>(),
            ["10.0.0.1:7000", "[::1]:7001", "other:6379"]
        );
        assert!(cluster.tls);
        let sentinel = address("redis+sentinel://me:p%40ss@s1,s2:5000/mymaster/3");
        assert_eq!(sentinel.primary.as_deref(), Some("mymaster"));
        assert_eq!((sentinel.nodes[0].port, sentinel.nodes[1].port, sentinel.database), (26379, 5000, 3));
        assert_eq!((sentinel.user.as_deref(), sentinel.password.as_deref()), (Some("me"), Some("p@ss")));
    }

    #[test]
    fn an_address_is_shown_without_secrets_and_handed_on_with_them() {
        for text in ["redis://me:se%2Fc:r@et@h:1/2", "rediss+sentinel://:se%20cret@h:1,[::1]:2/name/1"] {
            let address = address(text);
            let shown = format!("{address} {address:?}");
            assert!(!shown.contains("se") || !shown.contains("et@"), "{shown}");
            assert!(!shown.contains('@') && !shown.contains("me:"), "{shown}");
            assert_eq!(self::address(&address.with_secrets()), address);
        }
        assert_eq!(address("redis://:secret@h/").to_string(), "redis://h:6379");
        assert_eq!(address("redis+sentinel://h/name").to_string(), "redis+sentinel://h:26379/name");
    }

    #[test]
    fn a_password_from_elsewhere_is_used_where_the_address_has_none() {
        let password = |text, other| Address::parse(text, other).unwrap().password;
        assert_eq!(password("redis://h/", Some("other")).as_deref(), Some("other"));
        assert_eq!(password("redis://me@h/", Some("other")).as_deref(), Some("other"));
        assert_eq!(password("redis://:own@h/", Some("other")).as_deref(), Some("own"));
        assert_eq!(password("redis://h/", Some("")), None);
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_without_its_password() {
        let cases = [
            ("localhost:6379", "it has no scheme"),
            ("http://:secret@h/", "its scheme is 'http'"),
            ("rediss://:secret@h/#insecure", "#insecure is not supported"),
            ("redis://:secret@/", "it has no host"),
            ("redis://:secret@a,,b/", "it has no host"),
            ("redis://:secret@h:0/", "the port of h is not a number from 1 to 65535"),
            ("redis://:secret@h:65536/", "the port of h is not a number from 1 to 65535"),
            ("redis://:secret@h o/", "is no host"),
            ("redis://:secret@h/one", "its database is 'one'"),
            ("redis://:secret@h/?db=1", "a query or a fragment"),
            ("redis+sentinel://:secret@h/", "it has no name of the primary"),
            ("redis+sentinel://:secret@h/a b", "'a b' is no name of a primary"),
            ("redis://me@h/", "a user name and no password"),
            ("redis://:%FF@h/", "not UTF-8"),
        ];
        for (text, why) in cases {
            let message = error(text);
            assert!(message.contains(why), "{text}: {message}");
            assert!(!message.contains("secret"), "{message}");
            assert!(message.ends_with("give one like redis://host:6379/0"), "{message}");
        }
    }
}
