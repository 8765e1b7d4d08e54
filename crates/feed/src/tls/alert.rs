//! Alerts: what an endpoint says before it closes (RFC 8446 section 6, RFC 5246 section 7.2).

use std::fmt;

/// An alert's description, the second of its two bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Alert(pub u8);

/// Level of an alert that ends nothing; TLS 1.3 has it for `close_notify` and `user_canceled` only.
pub(super) const WARNING: u8 = 1;
/// Level of an alert that ends the connection.
pub(super) const FATAL: u8 = 2;

impl Alert {
    pub(super) const CLOSE_NOTIFY: Self = Self(0);
    pub(super) const UNEXPECTED_MESSAGE: Self = Self(10);
    pub(super) const BAD_RECORD_MAC: Self = Self(20);
    pub(super) const RECORD_OVERFLOW: Self = Self(22);
    pub(super) const HANDSHAKE_FAILURE: Self = Self(40);
    pub(super) const ILLEGAL_PARAMETER: Self = Self(47);
    pub(super) const DECODE_ERROR: Self = Self(50);
    pub(super) const PROTOCOL_VERSION: Self = Self(70);
    pub(super) const INTERNAL_ERROR: Self = Self(80);
    pub(super) const USER_CANCELED: Self = Self(90);
    pub(super) const NO_RENEGOTIATION: Self = Self(100);
    pub(super) const UNRECOGNIZED_NAME: Self = Self(112);
    pub(super) const CERTIFICATE_REQUIRED: Self = Self(116);

    /// The name that the RFCs give it.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "close_notify",
            10 => "unexpected_message",
            20 => "bad_record_mac",
            21 => "decryption_failed",
            22 => "record_overflow",
            30 => "decompression_failure",
            40 => "handshake_failure",
            41 => "no_certificate",
            42 => "bad_certificate",
            43 => "unsupported_certificate",
            44 => "certificate_revoked",
            45 => "certificate_expired",
            46 => "certificate_unknown",
            47 => "illegal_parameter",
            48 => "unknown_ca",
            49 => "access_denied",
            50 => "decode_error",
            51 => "decrypt_error",
            60 => "export_restriction",
            70 => "protocol_version",
            71 => "insufficient_security",
            80 => "internal_error",
            86 => "inappropriate_fallback",
            90 => "user_canceled",
            100 => "no_renegotiation",
            109 => "missing_extension",
            110 => "unsupported_extension",
            111 => "certificate_unobtainable",
            112 => "unrecognized_name",
            113 => "bad_certificate_status_response",
            114 => "bad_certificate_hash_value",
            115 => "unknown_psk_identity",
            116 => "certificate_required",
            120 => "no_application_protocol",
            121 => "ech_required",
            _ => "unknown alert",
        }
    }

    /// What it most likely means for somebody who wants market data, where that can be said.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::HANDSHAKE_FAILURE => {
                ": it shares no cipher suite or key exchange with us, or a middlebox refused"
            }
            Self::PROTOCOL_VERSION => ": it speaks neither TLS 1.3 nor TLS 1.2",
            Self::UNRECOGNIZED_NAME => ": it serves no host of this name; check the host",
            Self::CERTIFICATE_REQUIRED => ": it wants a client certificate, which feeds do not use",
            Self::INTERNAL_ERROR => ": the fault is on its side; try again later",
            _ => "",
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Debug for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alert({self})")
    }
}
