//! Requests over HTTPS, by ureq: snapshots of books, lists of instruments. Waits.

use std::io::Read;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, http::Response};

use super::config::Address;

/// The largest answer: 1,000 levels are 60 KiB, all instruments of Binance 1 MiB.
const LARGEST: u64 = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestError {
    /// The request did not get there, or the answer not back.
    #[error("{url}: {source}")]
    Transport {
        /// What was asked.
        url: String,
        /// What failed.
        source: Box<ureq::Error>,
    },
    /// The venue refuses.
    #[error("{url}: HTTP {status}{}: {body}{}", meaning(*status), retry_after.map(|t| format!("; it wants to be left alone for {} s", t.as_secs())).unwrap_or_default())]
    Status {
        /// What was asked.
        url: String,
        /// The status code.
        status: u16,
        /// Retry-After, if it said so.
        retry_after: Option<Duration>,
        /// The beginning of what it said.
        body: String,
    },
}

impl RestError {
    /// How long the venue wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Transport { .. } => None,
        }
    }
}

fn meaning(status: u16) -> &'static str {
    match status {
        418 => " (this address is banned for going on after 429)",
        429 => " (too many requests)",
        403 => " (refused by a firewall; too many requests, or a place that is not served)",
        451 => " (not served from this place for legal reasons)",
        300..=399 => " (a redirect: perhaps a captive portal)",
        _ => "",
    }
}

/// Asks one host.
#[derive(Clone, Debug)]
pub struct Rest {
    agent: Agent,
    authority: String,
}

impl Rest {
    /// For a host whose certificate one of `roots` has signed; one of Mozilla's where there are none.
    pub fn new(address: &Address, roots: &[CertificateDer<'static>]) -> Self {
        let roots: Vec<_> =
            roots.iter().map(|root| Certificate::from_der(root.as_ref()).to_owned()).collect();
        let roots = match roots.is_empty() {
            true => RootCerts::WebPki,
            false => RootCerts::new_with_certs(&roots),
        };
        let tls = TlsConfig::builder().root_certs(roots).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("quietcore-feed/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.into(), authority: address.authority() }
    }

    /// The answer to a GET.
    ///
    /// # Errors
    /// No answer, or one that is not 200.
    pub fn get(&self, path: &str) -> Result<Vec<u8>, RestError> {
        let url = format!("https://{}{path}", self.authority);
        let failed = |source| RestError::Transport { url: url.clone(), source: Box::new(source) };
        let mut response = self.agent.get(&url).call().map_err(failed)?;
        if response.status() != 200 {
            return Err(refusal(&url, &mut response));
        }
        response.body_mut().with_config().limit(LARGEST).read_to_vec().map_err(failed)
    }
}

fn refusal(url: &str, response: &mut Response<Body>) -> RestError {
    let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(|value| value.parse().ok()).map(Duration::from_secs);
    let mut body = Vec::new();
    // What cannot be read of it is not needed: the status says it.
    let _ = response.body_mut().as_reader().take(300).read_to_end(&mut body);
    let body = String::from_utf8_lossy(&body).split_whitespace().collect::<Vec<_>>().join(" ");
    let status = response.status().as_u16();
    RestError::Status { url: url.to_owned(), status, retry_after, body }
}
