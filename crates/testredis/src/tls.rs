//! A certificate for a server on loopback, and the root that signed it, as the files a server reads.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// The files of a server that speaks TLS.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Its certificate.
    pub certificate: PathBuf,
    /// The key of its certificate.
    pub key: PathBuf,
    /// The root that signed it, which a client has to trust.
    pub root: PathBuf,
}

impl Tls {
    /// Makes a certificate for `localhost` and 127.0.0.1, and a root of its own, in a directory.
    pub fn make(directory: &Path) -> Tls {
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
