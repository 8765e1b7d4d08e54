//! Whom a connection trusts, and the configuration made of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{CipherSuite, ClientConfig, RootCertStore};

use super::error::TlsError;

/// Whose signatures make a server's certificate good. There is no way to do without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// The machine's own (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others); Mozilla's, as built in,
    /// where it has none.
    System,
    /// The certificates of this PEM file and no others.
    File(PathBuf),
}

/// TLS 1.3 and 1.2 with ring's cipher suites, certificates verified against `roots`.
///
/// AES with 128 bits is offered first: it takes ten rounds instead of fourteen, where the server follows
/// the client's order. Sessions are resumed between connections that share it.
pub fn client_config(roots: Roots) -> Result<Arc<ClientConfig>, TlsError> {
    let store = match roots {
        Roots::System => system(rustls_native_certs::load_native_certs().certs),
        Roots::File(path) => of_file(&path)?,
    };
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !is_short(suite.suite()));
    let provider = Arc::new(provider);
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider))
            .build()
            .map_err(|error| TlsError::Handshake(rustls::Error::General(error.to_string())))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Handshake)?
        .with_webpki_verifier(verifier)
        .with_no_client_auth();
    // The record path of our own takes the traffic secrets over.
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

fn is_short(suite: CipherSuite) -> bool {
    suite.as_str().is_some_and(|name| name.contains("AES_128"))
}

/// The certificates that are believed, for whoever speaks TLS beside us; none stands for Mozilla's.
///
/// # Errors
///
/// Where the file cannot be read or holds none.
pub fn certificates(roots: &Roots) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let Roots::File(path) = roots else {
        return Ok(rustls_native_certs::load_native_certs().certs);
    };
    let bytes = std::fs::read(path)
        .map_err(|source| TlsError::RootsUnreadable { path: path.clone(), source })?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    read.map_err(|error: pem::Error| TlsError::RootsUnusable {
        path: path.clone(),
        why: error.to_string(),
    })
}

/// The usable ones of the machine's certificates; Mozilla's where there are none.
fn system(certificates: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates);
    if store.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    store
}

fn of_file(path: &Path) -> Result<RootCertStore, TlsError> {
    let unusable = |why: String| TlsError::RootsUnusable { path: path.to_owned(), why };
    let bytes = std::fs::read(path)
        .map_err(|source| TlsError::RootsUnreadable { path: path.to_owned(), source })?;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error: pem::Error| unusable(error.to_string()))?;
        store.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if store.is_empty() {
        return Err(unusable("no certificate is in it".into()));
    }
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> rcgen::Certificate {
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert
    }

    #[test]
    fn a_machine_without_certificates_trusts_mozillas() {
        assert_eq!(system(Vec::new()).len(), webpki_roots::TLS_SERVER_ROOTS.len());
        let broken = CertificateDer::from(vec![1, 2, 3]);
        assert_eq!(system(vec![broken.clone()]).len(), webpki_roots::TLS_SERVER_ROOTS.len());
        assert_eq!(system(vec![broken, certificate().der().clone()]).len(), 1);
    }

    #[test]
    fn a_file_says_what_is_wrong_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roots.pem");
        let error = |path: &Path| of_file(path).unwrap_err().to_string();
        assert!(error(&path).contains("cannot read the root certificates"));
        for (text, part) in [
            ("", "no certificate is in it"),
            ("-----BEGIN CERTIFICATE-----\nMIIB\n", "holds no usable root certificate"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no usable"),
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(error(&path).contains(part), "{text:?}: {}", error(&path));
        }
        std::fs::write(&path, certificate().pem().repeat(2)).unwrap();
        assert_eq!(of_file(&path).unwrap().len(), 2);
        assert!(client_config(Roots::File(path)).unwrap().enable_secret_extraction);
    }

    #[test]
    fn the_shorter_key_is_offered_first_in_both_versions() {
        let config = client_config(Roots::System).unwrap();
        let suites = &config.crypto_provider().cipher_suites;
        let short: Vec<_> = suites.iter().map(|suite| is_short(suite.suite())).collect();
        assert!(short.is_sorted_by_key(|is| !is), "{suites:?}");
        assert_eq!(short.iter().filter(|is| **is).count(), 3);
        assert_eq!(suites.len(), rustls::crypto::ring::ALL_CIPHER_SUITES.len());
    }
}
