//! Reads the parts of an X.509 certificate (RFC 5280) that messages name, and that decide whether a certificate that the
//! user trusts by itself is valid for a server.

use std::net::IpAddr;
use std::time::Duration;

use rustls::CertificateError;
use rustls::pki_types::{ServerName, UnixTime};

/// The parts of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Certificate<'a> {
    /// The issuer's name, encoded.
    issuer: &'a [u8],
    /// The subject's name, encoded.
    subject: &'a [u8],
    not_before: UnixTime,
    not_after: UnixTime,
    /// The host names in the extension subjectAltName, and in its absence the common name.
    names: Vec<&'a str>,
    addresses: Vec<IpAddr>,
}

/// The tags of DER elements.
const INTEGER: u8 = 0x02;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// The object identifiers 2.5.4.3, 2.5.4.10 and 2.5.29.17.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 29, 17];

impl<'a> Certificate<'a> {
    /// Parses a certificate in DER. `None` if it is none.
    pub(super) fn parse(der: &'a [u8]) -> Option<Certificate<'a>> {
        let mut certificate = Der(Der(der).expect(SEQUENCE)?);
        let mut fields = Der(certificate.expect(SEQUENCE)?);
        fields.optional(VERSION);
        fields.expect(INTEGER)?;
        fields.expect(SEQUENCE)?;
        let issuer = fields.expect(SEQUENCE)?;
        let mut validity = Der(fields.expect(SEQUENCE)?);
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let subject = fields.expect(SEQUENCE)?;
        fields.expect(SEQUENCE)?;
        let (mut names, mut addresses, mut has_alt_names) = (Vec::new(), Vec::new(), false);
        while let Some((tag, content)) = fields.next() {
            if tag == EXTENSIONS
                && let Some(alt_names) = extension(content, SUBJECT_ALT_NAME)
            {
                has_alt_names = true;
                (names, addresses) = read_alt_names(alt_names)?;
            }
        }
        if !has_alt_names {
            let common_name = attribute(subject, COMMON_NAME);
            addresses.extend(common_name.and_then(|name| name.parse::<IpAddr>().ok()));
            names.extend(common_name);
        }
        Some(Certificate { issuer, subject, not_before, not_after, names, addresses })
    }

    /// Whether its subject is its issuer, too.
    pub(super) fn is_self_signed(&self) -> bool {
        self.issuer == self.subject
    }

    /// The name of its issuer.
    pub(super) fn issuer_name(&self) -> Option<&'a str> {
        attribute(self.issuer, COMMON_NAME).or_else(|| attribute(self.issuer, ORGANIZATION))
    }

    /// Checks that it is valid at this time and for this server.
    pub(super) fn check(&self, server: &ServerName<'_>, time: UnixTime) -> Result<(), CertificateError> {
        if time < self.not_before {
            return Err(CertificateError::NotValidYetContext { time, not_before: self.not_before });
        }
        if time > self.not_after {
            return Err(CertificateError::ExpiredContext { time, not_after: self.not_after });
        }
        let fits = match server {
            ServerName::DnsName(name) => self.names.iter().any(|pattern| matches(pattern, name.as_ref())),
            ServerName::IpAddress(address) => self.addresses.contains(&IpAddr::from(*address)),
            _ => false,
        };
        let presented = || {
            let addresses = self.addresses.iter().map(|address| format!("IpAddress(\"{address}\")"));
            self.names.iter().map(|name| format!("DnsName({name:?})")).chain(addresses).collect()
        };
        match fits {
            true => Ok(()),
            false => Err(CertificateError::NotValidForNameContext {
                expected: server.to_owned(),
                presented: presented(),
            }),
        }
    }
}

/// Whether a name in a certificate, which may start with `*.`, stands for a host.
fn matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => host
            .split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(parent)),
        None => host.eq_ignore_ascii_case(pattern),
    }
}

/// The names and addresses in the extension subjectAltName.
fn read_alt_names(extension: &[u8]) -> Option<(Vec<&str>, Vec<IpAddr>)> {
    let mut alt_names = Der(Der(extension).expect(SEQUENCE)?);
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    while let Some((tag, content)) = alt_names.next() {
        match tag {
            DNS_NAME => names.extend(std::str::from_utf8(content)),
            IP_ADDRESS => {
                let v4 = <[u8; 4]>::try_from(content).map(IpAddr::from);
                addresses.extend(v4.or_else(|_| <[u8; 16]>::try_from(content).map(IpAddr::from)));
            }
            _ => {}
        }
    }
    Some((names, addresses))
}

/// The content of an extension.
fn extension<'a>(extensions: &'a [u8], id: &[u8]) -> Option<&'a [u8]> {
    let mut extensions = Der(Der(extensions).expect(SEQUENCE)?);
    while let Some((SEQUENCE, content)) = extensions.next() {
        let mut extension = Der(content);
        let is_wanted = extension.expect(OBJECT_IDENTIFIER)? == id;
        extension.optional(BOOLEAN);
        let content = extension.expect(OCTET_STRING)?;
        if is_wanted {
            return Some(content);
        }
    }
    None
}

/// The value of an attribute of a name, such as the common name.
fn attribute<'a>(name: &'a [u8], id: &[u8]) -> Option<&'a str> {
    let mut sets = Der(name);
    while let Some((SET, set)) = sets.next() {
        let mut attributes = Der(set);
        while let Some((SEQUENCE, content)) = attributes.next() {
            let mut attribute = Der(content);
            if attribute.expect(OBJECT_IDENTIFIER) == Some(id) {
                return std::str::from_utf8(attribute.next()?.1).ok();
            }
        }
    }
    None
}

/// A sequence of DER elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The tag and the content of the next element. `None` at the end, or if there is no valid element.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, first, rest @ ..] = self.0 else { return None };
        let (length, rest) = match usize::from(*first) {
            length @ 0..=0x7f => (length, rest),
            // So many bytes with the length follow. A certificate is smaller than 16 MB.
            long @ 0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(long - 0x80)?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next element, which must have this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// Skips the next element if it has this tag.
    fn optional(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            self.next();
        }
    }

    /// A time: `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
    fn time(&mut self) -> Option<UnixTime> {
        let (tag, content) = self.next()?;
        let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
        let (year, rest) = match tag {
            UTC_TIME => {
                let year: u64 = text.get(..2)?.parse().ok()?;
                (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
            }
            GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
            _ => return None,
        };
        let number = |range: std::ops::Range<usize>| rest.get(range)?.parse::<u64>().ok();
        let (month, day) = (number(0..2)?, number(2..4)?);
        let seconds = number(4..6)? * 3600 + number(6..8)? * 60 + number(8..10)?;
        let days = days_since_1970(year, month, day)?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(days * 24 * 60 * 60 + seconds)))
    }
}

/// The days from 1 January 1970 to a date; `None` if it is earlier, or no date.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years start in March, so that the leap day is the last day of the year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    // The days from 1 March of year 0 to 1 January 1970.
    days.checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    /// `openssl req -x509 -newkey rsa:2048 -nodes -days 36500 -subj '/O=Acme/CN=plain.test'`.
    const SELF_SIGNED: &[u8] = include_bytes!("../../../tests/data/self_signed.pem");

    fn der() -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(SELF_SIGNED).unwrap()
    }

    /// A day of 2033.
    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000))
    }

    fn name(text: &str) -> ServerName<'static> {
        ServerName::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn certificate_of_openssl_is_valid_for_its_common_name() {
        let der = der();
        let certificate = Certificate::parse(&der).unwrap();
        assert!(certificate.is_self_signed());
        assert_eq!(certificate.issuer_name(), Some("plain.test"));
        assert_eq!(certificate.check(&name("Plain.test"), now()), Ok(()));
        for other in ["other.test", "a.plain.test", "127.0.0.1"] {
            let error = certificate.check(&name(other), now()).unwrap_err();
            assert!(matches!(error, CertificateError::NotValidForNameContext { .. }), "{error}");
        }
        let epoch = UnixTime::since_unix_epoch(Duration::ZERO);
        let early = certificate.check(&name("plain.test"), epoch);
        assert!(matches!(early, Err(CertificateError::NotValidYetContext { .. })));
        let late = UnixTime::since_unix_epoch(Duration::from_secs(1 << 40));
        let late = certificate.check(&name("plain.test"), late);
        assert!(matches!(late, Err(CertificateError::ExpiredContext { .. })));
    }

    #[test]
    fn wildcard_stands_for_one_label() {
        assert!(matches("*.a.test", "b.A.test") && matches("A.test", "a.test"));
        assert!(!matches("*.a.test", "a.test") && !matches("*.a.test", "c.b.a.test"));
        assert!(!matches("*.a.test", ".a.test"));
    }

    #[test]
    fn dates_are_converted() {
        assert_eq!(days_since_1970(1970, 1, 1), Some(0));
        assert_eq!(days_since_1970(2000, 2, 29), Some(11_016));
        assert_eq!(days_since_1970(2026, 11, 16), Some(20_773));
        assert_eq!(days_since_1970(1969, 12, 31), None);
        assert_eq!(days_since_1970(2026, 13, 1), None);
    }

    proptest! {
        #[test]
        fn damaged_certificates_are_no_panic(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..8), length: u16) {
            let mut bytes = der().to_vec();
            for (index, byte) in changes {
                let index = usize::from(index) % bytes.len();
                bytes[index] = byte;
            }
            bytes.truncate(usize::from(length));
            if let Some(certificate) = Certificate::parse(&bytes) {
                let _ = (certificate.issuer_name(), certificate.check(&name("a.test"), now()));
            }
        }
    }
}
