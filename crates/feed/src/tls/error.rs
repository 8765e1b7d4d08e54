//! What goes wrong in TLS, said so that it can be acted on.

use std::io;
use std::path::PathBuf;

use rustls::{CertificateError, InvalidMessage, PeerMisbehaved};

use super::alert::Alert;

/// Why there is no connection, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of root certificates cannot be read.
    #[error("cannot read the root certificates {}: {source}", path.display())]
    RootsUnreadable {
        /// The file that was asked for.
        path: PathBuf,
        /// What reading it gave.
        source: io::Error,
    },
    /// The file of root certificates is not what it should be.
    #[error("{} holds no usable root certificate: {why}; it must be PEM", path.display())]
    RootsUnusable {
        /// The file that was asked for.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// The certificate's time is over, or the clock is wrong.
    #[error(
        "the server's certificate has expired{}: check this machine's clock, else the server's operator must renew it", .0
    )]
    Expired(String),
    /// The certificate's time has not begun, or the clock is wrong.
    #[error("the server's certificate is not valid yet{}: check this machine's clock", .0)]
    NotYetValid(String),
    /// The certificate is for other names.
    #[error(
        "the server's certificate is not for {expected} but for {presented}: check the host, and what its name resolves to here"
    )]
    WrongName {
        /// The name that was asked for.
        expected: String,
        /// The names that the certificate has.
        presented: String,
    },
    /// No root that is trusted here has signed the certificate.
    #[error(
        "the server's certificate is not signed by a root trusted here: perhaps a proxy or a captive portal intercepts TLS; a private authority's root is given as a PEM file"
    )]
    UnknownIssuer,
    /// A root of the issuer's name is trusted here, and its key is another.
    #[error(
        "a signature of the server's certificate does not verify: a root of the same name but with another key is trusted here, or something intercepts TLS"
    )]
    BadSignature,
    /// Another fault of the certificate.
    #[error("the server's certificate is refused: {0}")]
    Certificate(CertificateError),
    /// The port speaks HTTP without TLS.
    #[error(
        "plain HTTP came back ({0:?}) where TLS was expected: wrong port, or a proxy or captive portal answers"
    )]
    PlainHttp(String),
    /// The port speaks something else.
    #[error("what came back is not TLS (it begins {0:02x?}): check host and port")]
    NotTls(Vec<u8>),
    /// Nothing listens at the address.
    #[error("connection refused: nothing listens there; check host, port and firewall")]
    Refused,
    /// The connection ended before the handshake did.
    #[error(
        "the connection was closed during the TLS handshake: a firewall, a load balancer without a backend, or a server without this host name"
    )]
    ClosedInHandshake,
    /// The socket's time limit passed.
    #[error("no answer within the socket's time limit: check the network path")]
    TimedOut,
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(io::Error),
    /// The peer refused the handshake.
    #[error("the server refused the handshake with {}{}", .0, .0.advice())]
    Refusal(Alert),
    /// The handshake failed for another reason.
    #[error("the TLS handshake failed: {0}")]
    Handshake(rustls::Error),
    /// The record layer ended the connection.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Why the record layer ended the connection. It stays ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// A record was changed on its way, or sealed with other keys.
    #[error("a record does not authenticate (bad_record_mac): damaged or forged on its way")]
    BadMac,
    /// A record is longer than 2^14 bytes and what encryption may add.
    #[error("a record of {length} bytes is longer than TLS allows")]
    Oversized {
        /// Length by the record's header, or of what was in it.
        length: usize,
    },
    /// A record's header names no version of TLS 1.2 or 1.3.
    #[error("a record of version {version:#06x}: no longer TLS")]
    Version {
        /// As the header has it.
        version: u16,
    },
    /// A record of a type that has no place here.
    #[error("an unexpected record of type {content_type}")]
    UnexpectedType {
        /// RFC 8446 section 5.1, `ContentType`.
        content_type: u8,
    },
    /// A record of nothing but padding.
    #[error("a record without a content type: nothing but padding")]
    OnlyPadding,
    /// An alert or handshake record without content.
    #[error("an empty record of type {content_type}")]
    EmptyControl {
        /// RFC 8446 section 5.1, `ContentType`.
        content_type: u8,
    },
    /// Empty records without end are an attack.
    #[error("too many empty records in a row")]
    TooManyEmpty,
    /// Key updates without end are an attack.
    #[error("too many key updates without data between them")]
    TooManyKeyUpdates,
    /// Warnings without end are an attack.
    #[error("too many warnings")]
    TooManyWarnings,
    /// The peer insists on what was declined.
    #[error("the peer insists on renegotiation, which is unsafe and was declined")]
    Renegotiation,
    /// A record of another type between the parts of a handshake message.
    #[error("a record of type {content_type} inside a handshake message")]
    Interleaved {
        /// RFC 8446 section 5.1, `ContentType`.
        content_type: u8,
    },
    /// A handshake message beyond 64 KiB.
    #[error("a handshake message of {length} bytes")]
    MessageTooLong {
        /// As the message says.
        length: usize,
    },
    /// A handshake message that has no place after the handshake.
    #[error("an unexpected handshake message of type {kind}")]
    UnexpectedMessage {
        /// RFC 8446 section 4, `HandshakeType`.
        kind: u8,
    },
    /// A handshake message that cannot be read.
    #[error("a malformed handshake message of type {kind}")]
    MalformedMessage {
        /// RFC 8446 section 4, `HandshakeType`.
        kind: u8,
    },
    /// A key update that asks for neither of the two answers.
    #[error("a key update that asks for {request}")]
    KeyUpdateRequest {
        /// RFC 8446 section 4.6.3, `KeyUpdateRequest`: 0 or 1.
        request: u8,
    },
    /// A key update that is not the last of its record.
    #[error("a key change inside a record")]
    KeyChangeInsideRecord,
    /// An alert that is not two bytes.
    #[error("a malformed alert")]
    MalformedAlert,
    /// The peer says what went wrong.
    #[error("the peer ended the connection with the alert {0}")]
    Alert(Alert),
    /// A sequence number must not wrap.
    #[error("the sequence numbers are used up: connect anew")]
    SequenceExhausted,
    /// TLS 1.2 cannot change keys.
    #[error("the keys have sealed all that they may: connect anew")]
    KeysUsedUp,
    /// Sending after the end.
    #[error("the connection is closed")]
    Closed,
    /// An error of rustls's own record path that has no counterpart here.
    #[error("rustls: {0}")]
    Rustls(Box<rustls::Error>),
}

impl RecordError {
    /// What the peer is told; nothing where it has said itself that it is over, or nothing may be
    /// sealed any more.
    pub(super) fn alert(&self) -> Option<Alert> {
        Some(match self {
            Self::BadMac => Alert::BAD_RECORD_MAC,
            Self::Oversized { .. } => Alert::RECORD_OVERFLOW,
            Self::Version { .. } => Alert::PROTOCOL_VERSION,
            Self::MessageTooLong { .. } | Self::MalformedMessage { .. } | Self::MalformedAlert => {
                Alert::DECODE_ERROR
            }
            Self::KeyUpdateRequest { .. } => Alert::ILLEGAL_PARAMETER,
            Self::UnexpectedType { .. }
            | Self::OnlyPadding
            | Self::EmptyControl { .. }
            | Self::TooManyEmpty
            | Self::TooManyKeyUpdates
            | Self::TooManyWarnings
            | Self::Renegotiation
            | Self::Interleaved { .. }
            | Self::UnexpectedMessage { .. }
            | Self::KeyChangeInsideRecord => Alert::UNEXPECTED_MESSAGE,
            Self::SequenceExhausted => Alert::INTERNAL_ERROR,
            Self::Alert(_) | Self::KeysUsedUp | Self::Closed | Self::Rustls(_) => return None,
        })
    }
}

impl TlsError {
    /// What a socket's error means to somebody who connects.
    pub fn of_socket(error: io::Error) -> Self {
        use io::ErrorKind;
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => Self::ClosedInHandshake,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::TimedOut,
            _ => Self::Socket(error),
        }
    }

    /// What rustls's error means that ended a handshake.
    pub(super) fn of_handshake(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::of_certificate(error),
            rustls::Error::AlertReceived(alert) => Self::Refusal(Alert(alert.into())),
            error => Self::Handshake(error),
        }
    }

    fn of_certificate(error: CertificateError) -> Self {
        match error {
            CertificateError::Expired => Self::Expired(String::new()),
            CertificateError::ExpiredContext { time, not_after } => Self::Expired(format!(
                " {} ago",
                span(time.as_secs().saturating_sub(not_after.as_secs()))
            )),
            CertificateError::NotValidYet => Self::NotYetValid(String::new()),
            CertificateError::NotValidYetContext { time, not_before } => Self::NotYetValid(
                format!(", for {}", span(not_before.as_secs().saturating_sub(time.as_secs()))),
            ),
            CertificateError::NotValidForNameContext { expected, presented } => Self::WrongName {
                expected: expected.to_str().into_owned(),
                presented: if presented.is_empty() {
                    "no name".into()
                } else {
                    presented.join(", ")
                },
            },
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::BadSignature => Self::BadSignature,
            error => Self::Certificate(error),
        }
    }
}

/// A span of seconds as people say it: whole days, else hours, else minutes.
fn span(seconds: u64) -> String {
    let (count, unit) = match seconds {
        172_800.. => (seconds / 86_400, "days"),
        7_200.. => (seconds / 3_600, "hours"),
        _ => (seconds / 60, "minutes"),
    };
    format!("{count} {unit}")
}

/// rustls's record errors in our terms, so that both record paths say the same.
impl From<rustls::Error> for RecordError {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::DecryptError => Self::BadMac,
            rustls::Error::AlertReceived(alert) => Self::Alert(Alert(alert.into())),
            rustls::Error::PeerMisbehaved(PeerMisbehaved::TooManyEmptyFragments) => {
                Self::TooManyEmpty
            }
            rustls::Error::PeerMisbehaved(PeerMisbehaved::TooManyKeyUpdateRequests) => {
                Self::TooManyKeyUpdates
            }
            rustls::Error::PeerMisbehaved(PeerMisbehaved::TooManyWarningAlertsReceived) => {
                Self::TooManyWarnings
            }
            rustls::Error::PeerMisbehaved(PeerMisbehaved::TooManyRenegotiationRequests) => {
                Self::Renegotiation
            }
            rustls::Error::PeerMisbehaved(PeerMisbehaved::KeyEpochWithPendingFragment) => {
                Self::KeyChangeInsideRecord
            }
            rustls::Error::PeerMisbehaved(PeerMisbehaved::IllegalTlsInnerPlaintext) => {
                Self::OnlyPadding
            }
            rustls::Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge) => {
                Self::MessageTooLong { length: usize::from(u16::MAX) + 1 }
            }
            error => Self::Rustls(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_whole_units() {
        assert_eq!(span(59), "0 minutes");
        assert_eq!(span(7_199), "119 minutes");
        assert_eq!(span(7_200), "2 hours");
        assert_eq!(span(400 * 86_400), "400 days");
    }

    #[test]
    fn socket_errors_say_what_to_do() {
        use io::ErrorKind;
        let text = |kind: ErrorKind| TlsError::of_socket(kind.into()).to_string();
        assert!(text(ErrorKind::ConnectionRefused).contains("nothing listens there"));
        assert!(text(ErrorKind::ConnectionReset).contains("closed during the TLS handshake"));
        assert!(text(ErrorKind::WouldBlock).contains("time limit"));
        assert!(text(ErrorKind::PermissionDenied).contains("the socket failed"));
    }

    #[test]
    fn an_alert_has_its_name_and_advice() {
        let text = TlsError::Refusal(Alert::PROTOCOL_VERSION).to_string();
        assert!(text.contains("protocol_version (70): it speaks neither"), "{text}");
        assert_eq!(Alert(200).to_string(), "unknown alert (200)");
    }

    /// An alert has a name for every description that rustls knows.
    #[test]
    fn every_known_alert_is_named() {
        for code in 0..=255u8 {
            let known = rustls::AlertDescription::from(code).as_str().is_some();
            assert!(!known || Alert(code).name() != "unknown alert", "{code}");
        }
    }
}
