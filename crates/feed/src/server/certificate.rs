//! A certificate of our own making, and what may be wrong with it.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The names that a certificate is for besides those asked for: this machine, and the venues', so
/// that a client can be pointed here by an entry in its hosts file.
const NAMES: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "fstream.binance.com",
    "fapi.binance.com",
    "ws.okx.com",
    "www.okx.com",
];

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It was valid until the end of 2020.
    Expired,
    /// It is for `wrong.invalid`.
    WrongName,
    /// It is signed by an issuer that is not among the roots.
    UnknownIssuer,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It could not be made.
    #[error("no certificate could be made: {0}")]
    Make(#[from] rcgen::Error),
    /// The TLS library does not take it.
    #[error("the TLS library refuses the certificate: {0}")]
    Tls(#[from] rustls::Error),
}

/// What a TLS server needs, and what its clients need.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) config: Arc<ServerConfig>,
    /// The issuer to trust, as PEM.
    pub(super) roots_pem: String,
}

/// An issuer: its certificate and what it signs with.
fn authority(name: &str) -> Result<(Certificate, Issuer<'static, KeyPair>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?;
    Ok((certificate, Issuer::new(params, key)))
}

/// A fresh issuer and a certificate for this machine's names and `names`.
pub(super) fn identity(names: &[String], flaw: Option<Flaw>) -> Result<Identity, CertificateError> {
    let (root, issuer) = authority("quietcore replay venue")?;
    let names = match flaw {
        Some(Flaw::WrongName) => vec!["wrong.invalid".to_owned()],
        _ => NAMES.iter().map(ToString::to_string).chain(names.iter().cloned()).collect(),
    };
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "replay venue");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    if flaw == Some(Flaw::Expired) {
        (params.not_before, params.not_after) =
            (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 12, 31));
    }
    let key = KeyPair::generate()?;
    let certificate = match flaw {
        Some(Flaw::UnknownIssuer) => params.signed_by(&key, &authority("another issuer")?.1)?,
        _ => params.signed_by(&key, &issuer)?,
    };
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    Ok(Identity { config: Arc::new(config), roots_pem: root.pem() })
}
