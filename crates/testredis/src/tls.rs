//! Generates a certificate for a server on loopback, and the root that signed it, as files.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// The certificate files of a server with TLS.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The server's certificate.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The root certificate, which a client must trust.
    pub root: PathBuf,
}

impl Tls {
    /// Writes a new root and a certificate for `localhost` and 127.0.0.1 to a directory.
    pub fn generate(directory: &Path) -> Tls {
        let tls = Tls {
            certificate: directory.join("server.pem"),
            key: directory.join("server.key"),
            root: directory.join("root.pem"),
        };
        let mut root = CertificateParams::default();
        root.distinguished_name.push(DnType::CommonName, "testredis root");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &root).unwrap();
        std::fs::write(&tls.certificate, certificate.pem()).unwrap();
        std::fs::write(&tls.key, key.serialize_pem()).unwrap();
        std::fs::write(&tls.root, root.pem()).unwrap();
        tls
    }
}
