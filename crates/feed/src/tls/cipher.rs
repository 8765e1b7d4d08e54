//! Sealing and opening records: AEAD, nonces, additional data.
//!
//! TLS 1.3 as in RFC 8446 sections 5.2 and 5.3; TLS 1.2 with AES-GCM as in RFC 5288 section 3 and
//! with ChaCha20-Poly1305 as in RFC 7905 section 2.

use std::fmt;
use std::ops::Range;

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce,
    UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

use super::Version;
use super::error::RecordError;

/// `type`, `legacy_record_version`, `length` (RFC 8446 section 5.1).
pub(super) const HEADER: usize = 5;
/// Longest content of a record (RFC 8446 section 5.1, RFC 5246 section 6.2.1).
pub(super) const MAX_CONTENT: usize = 1 << 14;
/// What encryption may add in TLS 1.3 (RFC 8446 section 5.2); in TLS 1.2 these ciphers add 24.
pub(super) const MAX_EXPANSION: usize = 256;
/// The version that stands in every header after the handshake, in TLS 1.3 too.
pub(super) const LEGACY_VERSION: u16 = 0x0303;

/// `ContentType` of RFC 8446 section 5.1.
pub(super) mod content {
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const APPLICATION_DATA: u8 = 23;
}

const TAG: usize = 16;
/// The part of a TLS 1.2 AES-GCM nonce that stands before the ciphertext (RFC 5288 section 3).
const EXPLICIT_NONCE: usize = 8;

/// How a record is laid out around its ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// The content type is encrypted, zeros may follow it.
    Tls13,
    /// Eight bytes of nonce stand before the ciphertext.
    Tls12Gcm,
    /// The nonce is as in TLS 1.3, the additional data as in TLS 1.2.
    Tls12ChaCha,
}

/// One direction's key and its place in the sequence.
struct Keys {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    framing: Framing,
}

impl Keys {
    /// `None` for secrets of a cipher that is not one of the three.
    fn new(version: Version, sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        use ConnectionTrafficSecrets::{Aes128Gcm, Aes256Gcm, Chacha20Poly1305};
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match secrets {
            Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return None,
        };
        let framing = match version {
            Version::Tls13 => Framing::Tls13,
            Version::Tls12 if algorithm == &CHACHA20_POLY1305 => Framing::Tls12ChaCha,
            Version::Tls12 => Framing::Tls12Gcm,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).ok()?);
        Some(Self { key, iv: iv.as_ref().try_into().ok()?, sequence, framing })
    }

    /// The sequence number, big-endian and padded on the left, xor the IV (RFC 8446 section 5.3).
    ///
    /// For sealing with TLS 1.2 AES-GCM too, where the last eight bytes may be anything unique.
    #[inline]
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    /// RFC 5246 section 6.2.3.3: sequence number, type, version, length of the plaintext.
    fn additional_data(&self, content_type: u8, length: usize) -> [u8; 13] {
        let mut data = [0; 13];
        data[..8].copy_from_slice(&self.sequence.to_be_bytes());
        data[8] = content_type;
        data[9..11].copy_from_slice(&LEGACY_VERSION.to_be_bytes());
        data[11..].copy_from_slice(&(length as u16).to_be_bytes());
        data
    }
}

/// Opens the records of one direction, in order.
pub(super) struct Opener(Keys);

impl Opener {
    pub(super) fn new(
        version: Version,
        (sequence, secrets): (u64, &ConnectionTrafficSecrets),
    ) -> Option<Self> {
        Keys::new(version, sequence, secrets).map(Self)
    }

    /// Decrypts a record's body where it stands: its content type, and where in `body` the content
    /// is.
    #[inline]
    pub(super) fn open(
        &mut self,
        header: [u8; HEADER],
        body: &mut [u8],
    ) -> Result<(u8, Range<usize>), RecordError> {
        let next = self.0.sequence.checked_add(1).ok_or(RecordError::SequenceExhausted)?;
        let opened = match self.0.framing {
            Framing::Tls13 => self.open_tls13(header, body),
            Framing::Tls12Gcm => self.open_tls12(header, body, EXPLICIT_NONCE),
            Framing::Tls12ChaCha => self.open_tls12(header, body, 0),
        }?;
        self.0.sequence = next;
        Ok(opened)
    }

    #[inline]
    fn open_tls13(
        &self,
        header: [u8; HEADER],
        body: &mut [u8],
    ) -> Result<(u8, Range<usize>), RecordError> {
        if header[0] != content::APPLICATION_DATA {
            return Err(RecordError::UnexpectedType { content_type: header[0] });
        }
        let nonce = Nonce::assume_unique_for_key(self.0.nonce());
        let inner = self
            .0
            .key
            .open_in_place(nonce, Aad::from(header), body)
            .map_err(|_| RecordError::BadMac)?;
        if inner.len() > MAX_CONTENT + 1 {
            return Err(RecordError::Oversized { length: inner.len() });
        }
        // The content type is the last byte that is not padding (RFC 8446 section 5.4).
        let end = inner.iter().rposition(|byte| *byte != 0).ok_or(RecordError::OnlyPadding)?;
        Ok((inner[end], 0..end))
    }

    fn open_tls12(
        &self,
        header: [u8; HEADER],
        body: &mut [u8],
        explicit: usize,
    ) -> Result<(u8, Range<usize>), RecordError> {
        let length = body.len().checked_sub(explicit + TAG).ok_or(RecordError::BadMac)?;
        if length > MAX_CONTENT {
            return Err(RecordError::Oversized { length });
        }
        let mut nonce = self.0.nonce();
        let (before, ciphertext) = body.split_at_mut(explicit);
        if explicit == EXPLICIT_NONCE {
            nonce[..4].copy_from_slice(&self.0.iv[..4]);
            nonce[4..].copy_from_slice(before);
        }
        let data = self.0.additional_data(header[0], length);
        self.0
            .key
            .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(data), ciphertext)
            .map_err(|_| RecordError::BadMac)?;
        Ok((header[0], explicit..explicit + length))
    }
}

/// Seals the records of one direction, in order.
pub(super) struct Sealer {
    keys: Keys,
    /// How many records one key may seal (RFC 8446 section 5.5).
    limit: u64,
}

impl Sealer {
    pub(super) fn new(
        version: Version,
        (sequence, secrets): (u64, &ConnectionTrafficSecrets),
        limit: u64,
    ) -> Option<Self> {
        Some(Self { keys: Keys::new(version, sequence, secrets)?, limit })
    }

    /// How many records may still be sealed.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.keys.sequence)
    }

    /// Appends one record to `out`; `plain` has at most [`MAX_CONTENT`] bytes.
    pub(super) fn seal(
        &mut self,
        content_type: u8,
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), RecordError> {
        if self.left() == 0 {
            return Err(RecordError::KeysUsedUp);
        }
        let keys = &self.keys;
        let nonce = keys.nonce();
        let (outer, explicit, inner): (u8, &[u8], &[u8]) = match keys.framing {
            Framing::Tls13 => (content::APPLICATION_DATA, &[], &[content_type]),
            Framing::Tls12Gcm => (content_type, &nonce[4..], &[]),
            Framing::Tls12ChaCha => (content_type, &[], &[]),
        };
        let length = (explicit.len() + plain.len() + inner.len() + TAG) as u16;
        let [major, minor] = LEGACY_VERSION.to_be_bytes();
        let [high, low] = length.to_be_bytes();
        let header = [outer, major, minor, high, low];
        out.extend_from_slice(&header);
        out.extend_from_slice(explicit);
        let start = out.len();
        out.extend_from_slice(plain);
        out.extend_from_slice(inner);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = &mut out[start..];
        let tag = match keys.framing {
            Framing::Tls13 => keys.key.seal_in_place_separate_tag(nonce, Aad::from(header), sealed),
            _ => {
                let data = keys.additional_data(content_type, plain.len());
                keys.key.seal_in_place_separate_tag(nonce, Aad::from(data), sealed)
            }
        }
        // Fails only for more than 2^32 blocks.
        .map_err(|_| RecordError::KeysUsedUp)?;
        out.extend_from_slice(tag.as_ref());
        self.keys.sequence += 1;
        Ok(())
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({:?}, record {})", self.0.framing, self.0.sequence)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({:?}, record {})", self.keys.framing, self.keys.sequence)
    }
}
