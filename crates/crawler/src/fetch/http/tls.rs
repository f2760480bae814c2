//! TLS: which certificates are accepted, and failures in words.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, InvalidMessage, OtherError,
    PeerIncompatible, RootCertStore, SignatureScheme,
};

use super::certificate::Certificate;
use super::connect::describe_io_error;
use super::headers::excerpt;
use crate::modules::timestamp::rfc3339;
use crate::outcome::Outcome;

/// How many of the names of a certificate a message lists.
const MAX_LISTED_NAMES: usize = 5;

/// A TLS configuration that trusts Mozilla's root certificates, the given ones as roots, and the given ones themselves.
pub fn tls_client_config(given: &[CertificateDer<'static>]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    // Unparsable certificates were rejected when the file was read.
    roots.add_parsable_certificates(given.iter().cloned());
    let roots = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .expect("there are roots, and no revocation lists");
    client_config(provider, Arc::new(Verifier { roots, given: given.to_vec() }))
}

/// A TLS configuration that accepts every certificate.
pub(super) fn insecure_client_config() -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    client_config(Arc::clone(&provider), Arc::new(AcceptAll(provider)))
}

fn client_config(provider: Arc<CryptoProvider>, verifier: Arc<dyn ServerCertVerifier>) -> ClientConfig {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth()
}

/// Verifies certificates against the roots. A certificate that the user has given need not be one of an authority:
/// `openssl req -x509` makes one that is both, which no authority would sign, and that has no subjectAltName.
#[derive(Debug)]
struct Verifier {
    roots: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

/// Accepts every certificate, also those that cannot be parsed.
#[derive(Debug)]
struct AcceptAll(Arc<CryptoProvider>);

/// Why a certificate is not trusted.
#[derive(Debug)]
struct Untrusted {
    is_self_signed: bool,
    issuer: Option<String>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        ocsp: &[u8],
        time: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.given.iter().any(|given| given == certificate) {
            let parsed = Certificate::parse(certificate).ok_or(CertificateError::BadEncoding)?;
            parsed.check(server, time)?;
            return Ok(ServerCertVerified::assertion());
        }
        let verified = self.roots.verify_server_cert(certificate, intermediates, server, ocsp, time);
        verified.map_err(|error| match error {
            rustls::Error::InvalidCertificate(cause) if is_untrusted(&cause) => untrusted(certificate).into(),
            error => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.roots.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.roots.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.roots.supported_verify_schemes()
    }
}

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether no known authority has signed a certificate. The verifier reports a self-signed certificate that is its own
/// authority in its own way, and an authority with the name of a known one and another key as a bad signature.
fn is_untrusted(error: &CertificateError) -> bool {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => true,
        CertificateError::Other(other) => other.to_string().contains("CaUsedAsEndEntity"),
        _ => false,
    }
}

fn untrusted(certificate: &CertificateDer<'_>) -> CertificateError {
    let parsed = Certificate::parse(certificate);
    let reason = Untrusted {
        is_self_signed: parsed.as_ref().is_some_and(Certificate::is_self_signed),
        issuer: parsed.as_ref().and_then(Certificate::issuer_name).map(excerpt),
    };
    CertificateError::Other(OtherError(Arc::new(reason)))
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.issuer {
            _ if self.is_self_signed => f.write_str("the certificate is self-signed"),
            Some(issuer) => write!(f, "the certificate is signed by an unknown authority, '{issuer}'"),
            None => f.write_str("the certificate is signed by an unknown authority"),
        }
    }
}

impl StdError for Untrusted {}

/// The outcome for a TLS handshake that failed.
pub(super) fn tls_failure(error: io::Error) -> Outcome {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(error) => Outcome::TlsFailed { cause: describe_tls_error(error) },
        None => Outcome::ConnectionFailed {
            cause: format!("during the TLS handshake: {}", describe_io_error(&error)),
        },
    }
}

/// A TLS error in words that name what is wrong with the server or its certificate.
fn describe_tls_error(error: &rustls::Error) -> String {
    match error {
        // The first bytes are not a TLS record, so the server speaks another protocol, most often plain HTTP.
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the server does not speak TLS".into(),
        rustls::Error::InvalidCertificate(error) => describe_certificate_error(error),
        rustls::Error::NoCertificatesPresented => "the server sent no certificate".into(),
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        )
        | rustls::Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            "the server supports only versions of TLS that are too old; version 1.2 or 1.3 is required".into()
        }
        rustls::Error::PeerIncompatible(_) => {
            "the server supports no cipher suite or key exchange that the crawler supports".into()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("the server refused the TLS handshake with the alert {alert:?}")
        }
        error => error.to_string(),
    }
}

fn describe_certificate_error(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired => "the certificate has expired".into(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the certificate has expired on {}", date(*not_after))
        }
        CertificateError::NotValidYet => "the certificate is not valid yet".into(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("the certificate is not valid before {}", date(*not_before))
        }
        CertificateError::Revoked => "the certificate was revoked".into(),
        CertificateError::NotValidForName => "the certificate is for another name".into(),
        CertificateError::NotValidForNameContext { presented, .. } => match listed_names(presented) {
            Some(names) => format!("the certificate is for another name: {names}"),
            None => "the certificate is for no name".into(),
        },
        CertificateError::Other(OtherError(reason)) if reason.is::<Untrusted>() => reason.to_string(),
        error => format!("the certificate is not valid: {error}"),
    }
}

/// The first names of a certificate. They come in debug format: `DnsName("example.org")`.
fn listed_names(presented: &[String]) -> Option<String> {
    let names: Vec<&str> = presented
        .iter()
        .filter_map(|name| {
            name.split_once('(').map_or(Some(name.as_str()), |(_, name)| name.strip_suffix(')'))
        })
        .map(|name| name.trim_matches('"'))
        .collect();
    let shown: Vec<String> = names.iter().take(MAX_LISTED_NAMES).map(|name| excerpt(name)).collect();
    let more = names.len() - shown.len();
    match (shown.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown.join(", ")),
        (false, more) => Some(format!("{} and {more} more", shown.join(", "))),
    }
}

/// The date of a time.
fn date(time: UnixTime) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs()));
    time.map(rfc3339).and_then(|text| text.get(..10).map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_errors_are_dates_and_names() {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(1_577_836_800));
        let expired = CertificateError::ExpiredContext { time, not_after: time };
        assert_eq!(describe_certificate_error(&expired), "the certificate has expired on 2020-01-01");
        let early = CertificateError::NotValidYetContext { time, not_before: time };
        assert_eq!(describe_certificate_error(&early), "the certificate is not valid before 2020-01-01");
        let other_name = |presented: &[&str]| {
            describe_certificate_error(&CertificateError::NotValidForNameContext {
                expected: ServerName::try_from("a.test").unwrap(),
                presented: presented.iter().map(|name| (*name).to_owned()).collect(),
            })
        };
        assert_eq!(other_name(&[]), "the certificate is for no name");
        let one = ["DnsName(\"b.test\")", "IpAddress(127.0.0.1)"];
        assert_eq!(other_name(&one), "the certificate is for another name: b.test, 127.0.0.1");
        let many = other_name(&["DnsName(\"b.test\")"; 7]);
        assert!(many.ends_with("b.test, b.test and 2 more"), "{many}");
    }
}
