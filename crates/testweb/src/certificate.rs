//! Certificates generated at start: valid ones and each kind of invalid one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The certificate of the HTTPS listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certificate {
    /// Valid for any host name that the client sends, and for the address; signed by the root of
    /// [`Web::ca_pem`](crate::Web::ca_pem).
    Good,
    /// Like `Good`, but signed by an unknown root.
    UnknownIssuer,
    /// Like `Good`, but expired.
    Expired,
    /// Like `Good`, but for another host name.
    WrongName,
    /// Like `Good`, but signed by its own key, as `openssl req -x509` does.
    SelfSigned,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Signs a certificate for each host name that clients send.
#[derive(Debug)]
pub(crate) struct Authority {
    kind: Certificate,
    root_pem: String,
    signer: CertifiedIssuer<'static, KeyPair>,
    key: KeyPair,
    address: IpAddr,
    /// By host name, each with its PEM.
    certificates: Mutex<HashMap<String, (Arc<CertifiedKey>, String)>>,
}

impl Authority {
    pub(crate) fn new(kind: Certificate, address: IpAddr) -> Result<Self, Error> {
        let root = root("testweb root")?;
        let root_pem = root.pem();
        let signer =
            if kind == Certificate::UnknownIssuer { self::root("testweb unknown root")? } else { root };
        let certificates = Mutex::new(HashMap::new());
        Ok(Self { kind, root_pem, signer, key: KeyPair::generate()?, address, certificates })
    }

    pub(crate) fn root_pem(&self) -> &str {
        &self.root_pem
    }

    /// The configuration of a TLS listener, with or without HTTP/2.
    pub(crate) fn server(self: &Arc<Self>, h2: bool) -> Result<Arc<ServerConfig>, Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        if h2 {
            config.alpn_protocols.push(b"h2".to_vec());
        }
        config.alpn_protocols.push(b"http/1.1".to_vec());
        Ok(Arc::new(config))
    }

    /// The certificate of a host, and its PEM.
    pub(crate) fn certificate(&self, name: &str) -> Result<(Arc<CertifiedKey>, String), Error> {
        let mut certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(certificate) = certificates.get(name) {
            return Ok(certificate.clone());
        }
        let (key, pem) = self.sign(name)?;
        let certificate = (Arc::new(key), pem);
        certificates.insert(name.to_owned(), certificate.clone());
        Ok(certificate)
    }

    fn sign(&self, name: &str) -> Result<(CertifiedKey, String), Error> {
        let names = match self.kind {
            Certificate::WrongName => vec!["wrong.example".to_owned()],
            _ => vec![name.to_owned(), "localhost".to_owned(), self.address.to_string()],
        };
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "testweb");
        if self.kind == Certificate::Expired {
            params.not_before = rcgen::date_time_ymd(2019, 1, 1);
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let certificate = if self.kind == Certificate::SelfSigned {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.self_signed(&self.key)?
        } else {
            params.signed_by(&self.key, &self.signer)?
        };
        let key = PrivateKeyDer::try_from(self.key.serialize_der())?;
        let key = ring::sign::any_supported_type(&key)?;
        Ok((CertifiedKey::new(vec![certificate.der().clone()], key), certificate.pem()))
    }
}

impl ResolvesServerCert for Authority {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().unwrap_or("localhost");
        Some(self.certificate(name).ok()?.0)
    }
}

fn root(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}
