//! Records that must not be, each with the error that it gets and the alert that the peer is told.

use rustls::ConnectionTrafficSecrets;
use rustls::SupportedCipherSuite;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::crypto::ring::cipher_suite;

use quietcore_feed::tls::{Alert, RecordError, RecordPath, Records, Step, Tls, TlsError, Version};

use super::peer::{ALERT, Cipher, Crafter, DATA, HANDSHAKE, Hand, Identity, SUITES, connect};

const TLS13: SupportedCipherSuite = cipher_suite::TLS13_AES_256_GCM_SHA384;
const TLS12: SupportedCipherSuite = cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;

/// The first error of a stream, and that it stays.
fn error(tls: &mut Tls, bytes: &[u8]) -> RecordError {
    let space = tls.space();
    space[..bytes.len()].copy_from_slice(bytes);
    tls.filled(bytes.len());
    let first = loop {
        match tls.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no error"),
            Err(TlsError::Record(error)) => break error,
            Err(error) => panic!("{error}"),
        }
    };
    for _ in 0..2 {
        tls.space().fill(0);
        tls.filled(1_000);
        let Err(TlsError::Record(again)) = tls.next() else { panic!("it lives") };
        assert_eq!(again, first);
        assert!(matches!(tls.send(b"x"), Err(TlsError::Record(error)) if error == first));
    }
    first
}

fn received(description: u8) -> RecordError {
    RecordError::Alert(Alert(description))
}

type Stream = fn(&mut Hand) -> Vec<u8>;

/// Each stream after a good record, in a connection of its own.
fn check(suite: SupportedCipherSuite, table: &[(Stream, RecordError, Option<u8>)]) {
    let identity = Identity::new("localhost", |_| ());
    for (row, (stream, expected, alert)) in table.iter().enumerate() {
        let mut crafter = Crafter::new(identity.server(&[suite]));
        let mut tls = connect(&mut crafter, identity.client(&SUITES), RecordPath::Own).unwrap();
        let mut hand = crafter.finish();
        let mut bytes = hand.send.record(DATA, b"good", 0);
        bytes.extend(stream(&mut hand));
        assert_eq!(error(&mut tls, &bytes), *expected, "row {row}");
        if let Some(alert) = alert {
            let told = hand.receive.open(tls.outgoing());
            assert_eq!(told, (ALERT, vec![2, *alert]), "row {row}");
        }
        assert!(tls.outgoing().is_empty(), "row {row}");
    }
}

const UNEXPECTED_MESSAGE: Option<u8> = Some(10);
const BAD_RECORD_MAC: Option<u8> = Some(20);
const RECORD_OVERFLOW: Option<u8> = Some(22);
const ILLEGAL_PARAMETER: Option<u8> = Some(47);
const DECODE_ERROR: Option<u8> = Some(50);
const PROTOCOL_VERSION: Option<u8> = Some(70);

fn damaged(hand: &mut Hand, at: usize) -> Vec<u8> {
    let mut record = hand.send.record(DATA, b"damaged", 0);
    let at = at % record.len();
    record[at] ^= 1;
    record
}

fn repeated(hand: &mut Hand, count: usize, content_type: u8, content: &[u8]) -> Vec<u8> {
    (0..count).flat_map(|_| hand.send.record(content_type, content, 0)).collect()
}

#[test]
fn faults_of_records() {
    use RecordError::*;
    check(
        TLS13,
        &[
            (|hand| damaged(hand, 5), BadMac, BAD_RECORD_MAC),
            (|hand| damaged(hand, usize::MAX), BadMac, BAD_RECORD_MAC),
            // A record that is missing, and one that comes twice.
            (
                |hand| {
                    hand.send.record(DATA, b"lost", 0);
                    hand.send.record(DATA, b"next", 0)
                },
                BadMac,
                BAD_RECORD_MAC,
            ),
            (|hand| hand.send.record(DATA, b"twice", 0).repeat(2), BadMac, BAD_RECORD_MAC),
            (|_| vec![23, 3, 3, 0, 0], BadMac, BAD_RECORD_MAC),
            (
                |_| vec![23, 3, 3, 0, 15].into_iter().chain([0; 15]).collect(),
                BadMac,
                BAD_RECORD_MAC,
            ),
            // The header alone says so.
            (|_| vec![23, 3, 3, 0x41, 1], Oversized { length: 16_641 }, RECORD_OVERFLOW),
            (|_| vec![23, 3, 3, 255, 255], Oversized { length: 65_535 }, RECORD_OVERFLOW),
            (
                |hand| hand.send.record(DATA, &[1; (1 << 14) + 1], 0),
                Oversized { length: 16_386 },
                RECORD_OVERFLOW,
            ),
            (
                |hand| hand.send.record(DATA, b"x", 1 << 14),
                Oversized { length: 16_386 },
                RECORD_OVERFLOW,
            ),
            (|_| vec![23, 3, 1, 0, 32], Version { version: 0x301 }, PROTOCOL_VERSION),
            (|_| b"HTTP/1.1 400".to_vec(), Version { version: 0x5454 }, PROTOCOL_VERSION),
            (|_| vec![20, 3, 3, 0, 1, 1], UnexpectedType { content_type: 20 }, UNEXPECTED_MESSAGE),
            (
                |_| vec![21, 3, 3, 0, 2, 2, 40],
                UnexpectedType { content_type: 21 },
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| hand.send.record(20, &[1], 0),
                UnexpectedType { content_type: 20 },
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| hand.send.record(99, b"?", 0),
                UnexpectedType { content_type: 99 },
                UNEXPECTED_MESSAGE,
            ),
            (|hand| hand.send.seal(DATA, vec![0; 64]), OnlyPadding, UNEXPECTED_MESSAGE),
            (|hand| hand.send.seal(DATA, Vec::new()), OnlyPadding, UNEXPECTED_MESSAGE),
            (
                |hand| hand.send.record(HANDSHAKE, b"", 9),
                EmptyControl { content_type: 22 },
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| hand.send.record(ALERT, b"", 0),
                EmptyControl { content_type: 21 },
                UNEXPECTED_MESSAGE,
            ),
            (|hand| repeated(hand, 33, DATA, b""), TooManyEmpty, UNEXPECTED_MESSAGE),
        ],
    );
}

#[test]
fn faults_of_messages() {
    use RecordError::*;
    check(
        TLS13,
        &[
            (
                |hand| hand.send.record(HANDSHAKE, &[24, 0, 0, 1, 2], 0),
                KeyUpdateRequest { request: 2 },
                ILLEGAL_PARAMETER,
            ),
            (
                |hand| hand.send.record(HANDSHAKE, &[24, 0, 0, 0], 0),
                MalformedMessage { kind: 24 },
                DECODE_ERROR,
            ),
            (
                |hand| hand.send.record(HANDSHAKE, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0], 0),
                KeyChangeInsideRecord,
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| hand.send.record(HANDSHAKE, &[24, 0, 0, 1, 1, 4], 0),
                KeyChangeInsideRecord,
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| {
                    (0..33)
                        .flat_map(|_| {
                            let record = hand.send.record(HANDSHAKE, &[24, 0, 0, 1, 0], 0);
                            hand.update_send_keys();
                            record
                        })
                        .collect()
                },
                TooManyKeyUpdates,
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| hand.send.record(HANDSHAKE, &[4, 0, 0, 2, 0, 0], 0),
                MalformedMessage { kind: 4 },
                DECODE_ERROR,
            ),
            // A certificate request, which nobody has offered to answer.
            (
                |hand| hand.send.record(HANDSHAKE, &[13, 0, 0, 0], 0),
                UnexpectedMessage { kind: 13 },
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| hand.send.record(HANDSHAKE, &[0; 4], 0),
                UnexpectedMessage { kind: 0 },
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| hand.send.record(HANDSHAKE, &[4, 1, 0, 0], 0),
                MessageTooLong { length: 65_536 },
                DECODE_ERROR,
            ),
            (
                |hand| {
                    let mut bytes = hand.send.record(HANDSHAKE, &[4, 0, 0, 9, 1], 0);
                    bytes.extend(hand.send.record(DATA, b"between", 0));
                    bytes
                },
                Interleaved { content_type: 23 },
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| {
                    let mut bytes = hand.send.record(HANDSHAKE, &[4], 0);
                    bytes.extend(hand.send.record(ALERT, &[1, 0], 0));
                    bytes
                },
                Interleaved { content_type: 21 },
                UNEXPECTED_MESSAGE,
            ),
        ],
    );
}

#[test]
fn faults_of_alerts() {
    use RecordError::*;
    check(
        TLS13,
        &[
            (|hand| hand.send.record(ALERT, &[2], 0), MalformedAlert, DECODE_ERROR),
            (|hand| hand.send.record(ALERT, &[1, 0, 1, 0], 0), MalformedAlert, DECODE_ERROR),
            (|hand| hand.send.record(ALERT, &[3, 0], 0), MalformedAlert, DECODE_ERROR),
            (|hand| hand.send.record(ALERT, &[2, 20], 0), received(20), None),
            // TLS 1.3 knows no warnings but two.
            (|hand| hand.send.record(ALERT, &[1, 100], 0), received(100), None),
            (|hand| repeated(hand, 5, ALERT, &[1, 90]), TooManyWarnings, UNEXPECTED_MESSAGE),
        ],
    );
    let text = received(80).to_string();
    assert!(text.contains("internal_error (80)"), "{text}");
}

#[test]
fn faults_of_tls12() {
    use RecordError::*;
    check(
        TLS12,
        &[
            (|hand| damaged(hand, 5), BadMac, BAD_RECORD_MAC),
            (|hand| damaged(hand, 13), BadMac, BAD_RECORD_MAC),
            // The type is authenticated with the sequence number.
            (
                |hand| {
                    let mut record = hand.send.record(DATA, b"data", 0);
                    record[0] = HANDSHAKE;
                    record
                },
                BadMac,
                BAD_RECORD_MAC,
            ),
            (
                |_| vec![23, 3, 3, 0, 23].into_iter().chain([0; 23]).collect(),
                BadMac,
                BAD_RECORD_MAC,
            ),
            (|_| vec![23, 3, 3, 0x41, 1], Oversized { length: 16_641 }, RECORD_OVERFLOW),
            (
                |hand| hand.send.record(DATA, &[1; (1 << 14) + 1], 0),
                Oversized { length: 16_385 },
                RECORD_OVERFLOW,
            ),
            (|hand| repeated(hand, 33, DATA, b""), TooManyEmpty, UNEXPECTED_MESSAGE),
            (|hand| hand.send.record(ALERT, &[2, 40], 0), received(40), None),
            (|hand| repeated(hand, 5, ALERT, &[1, 100]), TooManyWarnings, UNEXPECTED_MESSAGE),
            (
                |hand| hand.send.record(20, &[1], 0),
                UnexpectedType { content_type: 20 },
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| hand.send.record(HANDSHAKE, &[24, 0, 0, 1, 0], 0),
                UnexpectedMessage { kind: 24 },
                UNEXPECTED_MESSAGE,
            ),
            (
                |hand| hand.send.record(HANDSHAKE, &[0, 0, 0, 1, 0], 0),
                MalformedMessage { kind: 0 },
                DECODE_ERROR,
            ),
        ],
    );
}

/// A second request is one too many: first the answer to the first, then the alert.
#[test]
fn renegotiation_is_not_declined_twice() {
    let identity = Identity::new("localhost", |_| ());
    let mut crafter = Crafter::new(identity.server(&[TLS12]));
    let mut tls = connect(&mut crafter, identity.client(&SUITES), RecordPath::Own).unwrap();
    let mut hand = crafter.finish();
    let bytes = repeated(&mut hand, 2, HANDSHAKE, &[0; 4]);
    assert_eq!(error(&mut tls, &bytes), RecordError::Renegotiation);
    assert_eq!(hand.receive.open(tls.outgoing()), (ALERT, vec![1, 100]));
    assert_eq!(hand.receive.open(tls.outgoing()), (ALERT, vec![2, 10]));
}

fn secrets(byte: u8) -> ConnectionTrafficSecrets {
    ConnectionTrafficSecrets::Aes256Gcm { key: AeadKey::from([byte; 32]), iv: Iv::from([byte; 12]) }
}

/// RFC 8446 section 5.3: a sequence number must not wrap.
#[test]
fn the_last_sequence_number_is_not_passed() {
    for (version, is_tls13) in [(Version::Tls13, true), (Version::Tls12, false)] {
        let last = u64::MAX - 1;
        let mut records =
            Records::new(version, (last, &secrets(1)), (0, &secrets(2)), 1 << 24).unwrap();
        let mut server = Cipher::new(is_tls13, last, &secrets(1));
        let mut bytes = server.record(DATA, b"last", 0);
        bytes.extend([DATA, 3, 3, 0, 40].into_iter().chain([0; 40]));
        records.space()[..bytes.len()].copy_from_slice(&bytes);
        records.filled(bytes.len());
        let Ok(Step::Data(data)) = records.step() else { panic!("the last may be used") };
        assert_eq!(records.at(data), b"last");
        assert_eq!(records.step(), Err(RecordError::SequenceExhausted));
        assert_eq!(records.step(), Err(RecordError::SequenceExhausted));
    }
}

/// Keys that may seal nothing more seal nothing more, the alert included.
#[test]
fn used_up_keys_seal_nothing() {
    let used_up = (1 << 24, &secrets(2));
    let mut records = Records::new(Version::Tls13, (0, &secrets(1)), used_up, 1 << 24).unwrap();
    assert!(records.keys_nearly_used_up());
    assert_eq!(records.send(b"x"), Err(RecordError::KeysUsedUp));
    let update = records.update_send_keys((0, &secrets(3)), 1 << 24);
    assert_eq!(update, Err(RecordError::KeysUsedUp));
    assert!(records.outgoing().is_empty());
}
