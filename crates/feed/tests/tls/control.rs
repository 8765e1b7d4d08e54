//! What is dealt with between the records of application data.

use std::io::Write;
use std::sync::Arc;

use rustls::crypto::ring::cipher_suite;
use rustls::{HandshakeKind, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};

use quietcore_feed::tls::{RecordError, RecordPath, Tls, TlsError};

use super::peer::{ALERT, Crafter, DATA, HANDSHAKE, Hand, Identity, SUITES, Server, connect, feed};

const TLS13: SupportedCipherSuite = cipher_suite::TLS13_AES_128_GCM_SHA256;
const TLS12: SupportedCipherSuite = cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
const BOTH: [RecordPath; 2] = [RecordPath::Own, RecordPath::Rustls];

const UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const UPDATE_BOTH: [u8; 5] = [24, 0, 0, 1, 1];
/// Lifetime, age_add, nonce, ticket, extensions (RFC 8446 section 4.6.1).
const TICKET: [u8; 19] = [4, 0, 0, 15, 0, 0, 14, 16, 1, 2, 3, 4, 1, 0, 0, 1, 99, 0, 0];

fn crafted(suite: SupportedCipherSuite) -> (Tls, Hand) {
    let identity = Identity::new("localhost", |_| ());
    let mut crafter = Crafter::new(identity.server(&[suite]));
    let tls = connect(&mut crafter, identity.client(&SUITES), RecordPath::Own).unwrap();
    (tls, crafter.finish())
}

/// Feeds the bytes whole; the records that come out.
fn take(tls: &mut Tls, bytes: &[u8]) -> Vec<Vec<u8>> {
    let outcome = feed(tls, bytes, &[usize::MAX]);
    assert_eq!(outcome.error, None);
    outcome.records
}

#[test]
fn a_key_update_that_asks_for_nothing_gets_nothing() {
    let (mut tls, mut hand) = crafted(TLS13);
    for round in 0..40u8 {
        let mut stream = hand.send.record(HANDSHAKE, &UPDATE, 0);
        hand.update_send_keys();
        stream.extend(hand.send.record(DATA, &[round], 0));
        assert_eq!(take(&mut tls, &stream), [[round]]);
        assert!(tls.outgoing().is_empty());
    }
}

#[test]
fn a_key_update_that_asks_is_answered_under_the_old_key() {
    let (mut tls, mut hand) = crafted(TLS13);
    for round in 0..40u8 {
        let mut stream = hand.send.record(HANDSHAKE, &UPDATE_BOTH, 7);
        hand.update_send_keys();
        stream.extend(hand.send.record(DATA, &[round], 0));
        assert_eq!(take(&mut tls, &stream), [[round]]);
        tls.send(b"after").unwrap();
        assert_eq!(hand.receive.open(tls.outgoing()), (HANDSHAKE, UPDATE.to_vec()));
        hand.update_receive_keys();
        assert_eq!(hand.receive.open(tls.outgoing()), (DATA, b"after".to_vec()));
        assert!(tls.outgoing().is_empty());
    }
}

#[test]
fn messages_share_records_and_span_them() {
    let (mut tls, mut hand) = crafted(TLS13);
    // Two tickets and a half, the other half, and a key update as the record's last.
    let mut stream = hand.send.record(HANDSHAKE, &[&TICKET, &TICKET, &TICKET[..9]].concat(), 0);
    stream.extend(hand.send.record(HANDSHAKE, &[&TICKET[9..], &UPDATE].concat(), 100));
    hand.update_send_keys();
    stream.extend(hand.send.record(DATA, b"a", 0));
    for byte in TICKET.iter().chain(&UPDATE) {
        stream.extend(hand.send.record(HANDSHAKE, &[*byte], 0));
    }
    hand.update_send_keys();
    stream.extend(hand.send.record(DATA, b"b", 0));
    assert_eq!(take(&mut tls, &stream), [b"a", b"b"]);
}

#[test]
fn padding_is_stripped() {
    let (mut tls, mut hand) = crafted(TLS13);
    let mut stream = hand.send.record(DATA, b"ends in zeros\0\0", 300);
    stream.extend(hand.send.record(DATA, &[0; 1 << 14], 0));
    stream.extend(hand.send.record(DATA, b"", 5_000));
    stream.extend(hand.send.record(DATA, b"x", (1 << 14) - 1));
    assert_eq!(take(&mut tls, &stream), [&b"ends in zeros\0\0"[..], &[0; 1 << 14], b"x"]);
}

#[test]
fn a_ticket_shortens_the_next_handshake() {
    let identity = Identity::new("localhost", |_| ());
    for suite in [TLS13, TLS12] {
        let config = identity.server(&[suite]);
        let client = identity.client(&SUITES);
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let mut server = Server::new(config.clone());
            let mut tls = connect(&mut server, Arc::clone(&client), RecordPath::Own).unwrap();
            server.send(b"hello");
            let bytes: Vec<u8> = server.to_client.drain(..).collect();
            assert_eq!(take(&mut tls, &bytes), [b"hello"]);
            kinds.push(server.connection.handshake_kind().unwrap());
        }
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed], "{suite:?}");
    }
}

/// The server's application speaks first: its data comes together with the server's `Finished`.
#[test]
fn data_that_comes_with_the_end_of_the_handshake_is_not_lost() {
    let identity = Identity::new("localhost", |_| ());
    let greeting: Vec<u8> = (0..40_000u32).map(|n| n as u8).collect();
    for (suite, path) in SUITES.iter().flat_map(|suite| BOTH.map(|path| (*suite, path))) {
        for chunk in [1, 7, 4_096, usize::MAX] {
            let mut server = Server::new(identity.server(&[suite]));
            server.chunk = chunk;
            server.connection.writer().write_all(&greeting).unwrap();
            let mut tls = connect(&mut server, identity.client(&SUITES), path).unwrap();
            let already = feed(&mut tls, &[], &[1]).records.concat();
            let bytes: Vec<u8> = server.to_client.drain(..).collect();
            let later = take(&mut tls, &bytes).concat();
            assert!([already, later].concat() == greeting, "{suite:?} {path:?} {chunk}");
        }
    }
}

/// Handshake messages in pieces, many records to a read and many reads to a record.
#[test]
fn a_handshake_may_come_in_small_records() {
    let identity = Identity::new("localhost", |_| ());
    for (suite, path) in SUITES.iter().flat_map(|suite| BOTH.map(|path| (*suite, path))) {
        for chunk in [1, 50, usize::MAX] {
            let mut config = identity.server(&[suite]);
            config.max_fragment_size = Some(32);
            let mut server = Server::new(config);
            server.chunk = chunk;
            let mut tls = connect(&mut server, identity.client(&SUITES), path).unwrap();
            server.send(b"hello");
            let bytes: Vec<u8> = server.to_client.drain(..).collect();
            assert_eq!(take(&mut tls, &bytes), [b"hello"], "{suite:?} {path:?} {chunk}");
        }
    }
}

/// The engine hands connections from thread to thread.
#[test]
fn a_connection_may_change_threads() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&crafted(TLS13).0);
}

#[test]
fn the_negotiated_names_are_those_of_the_registry() {
    let identity = Identity::new("localhost", |_| ());
    for path in BOTH {
        let agreed = |suite| {
            let mut server = Server::new(identity.server(&[suite]));
            let tls = connect(&mut server, identity.client(&SUITES), path).unwrap();
            let negotiated = tls.negotiated();
            (negotiated.version, negotiated.cipher_suite)
        };
        assert_eq!(agreed(TLS13), ("TLS 1.3", "TLS_AES_128_GCM_SHA256".into()));
        let name = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        assert_eq!(agreed(TLS12), ("TLS 1.2", name.into()));
    }
}

#[test]
fn the_peers_close_is_answered_and_what_follows_ignored() {
    for suite in SUITES {
        let (mut tls, mut hand) = crafted(suite);
        let mut stream = hand.send.record(DATA, b"last", 0);
        stream.extend(hand.send.record(ALERT, &[1, 0], 0));
        stream.extend([0; 100]);
        let outcome = feed(&mut tls, &stream, &[usize::MAX]);
        assert_eq!((outcome.records, outcome.error), (vec![b"last".to_vec()], None));
        assert!(outcome.closed);
        assert_eq!(take(&mut tls, &[0; 300_000]), [[0; 0]; 0], "the buffer does not fill up");
        assert_eq!(hand.receive.open(tls.outgoing()), (ALERT, vec![1, 0]));
        assert!(tls.outgoing().is_empty());
        let late = tls.send(b"late");
        assert!(matches!(late, Err(TlsError::Record(RecordError::Closed))), "{late:?}");
    }
}

#[test]
fn closing_says_so_once() {
    for path in BOTH {
        let identity = Identity::new("localhost", |_| ());
        let mut server = Server::new(identity.server(&[TLS13]));
        let mut tls = connect(&mut server, identity.client(&SUITES), path).unwrap();
        tls.send(b"bye").unwrap();
        tls.close();
        tls.close();
        assert!(matches!(tls.send(b"late"), Err(TlsError::Record(RecordError::Closed))));
        let length = tls.outgoing().len();
        assert_eq!(server.receive(tls.outgoing()), b"bye");
        tls.close();
        assert!(tls.outgoing().is_empty() && length > 0);
        // The server may still send.
        server.send(b"rest");
        let bytes: Vec<u8> = server.to_client.drain(..).collect();
        assert_eq!(take(&mut tls, &bytes), [b"rest"]);
    }
}

#[test]
fn renegotiation_is_declined_once() {
    let (mut tls, mut hand) = crafted(TLS12);
    let mut stream = hand.send.record(HANDSHAKE, &[0; 4], 0);
    stream.extend(hand.send.record(DATA, b"goes on", 0));
    assert_eq!(take(&mut tls, &stream), [b"goes on"]);
    assert_eq!(hand.receive.open(tls.outgoing()), (ALERT, vec![1, 100]));
}

/// A copy of a suite whose keys may seal four records.
fn four_records(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    match suite {
        SupportedCipherSuite::Tls13(suite) => {
            let Tls13CipherSuite { common, hkdf_provider, aead_alg, quic } = suite;
            let common = rustls::crypto::CipherSuiteCommon {
                suite: common.suite,
                hash_provider: common.hash_provider,
                confidentiality_limit: 4,
            };
            SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
                common,
                hkdf_provider: *hkdf_provider,
                aead_alg: *aead_alg,
                quic: *quic,
            })))
        }
        SupportedCipherSuite::Tls12(suite) => {
            let Tls12CipherSuite { common, prf_provider, kx, sign, aead_alg } = suite;
            let common = rustls::crypto::CipherSuiteCommon {
                suite: common.suite,
                hash_provider: common.hash_provider,
                confidentiality_limit: 4,
            };
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
                common,
                prf_provider: *prf_provider,
                kx: *kx,
                sign,
                aead_alg: *aead_alg,
            })))
        }
    }
}

#[test]
fn keys_are_changed_before_they_have_sealed_too_much() {
    let identity = Identity::new("localhost", |_| ());
    let client = identity.client(&[four_records(TLS13)]);
    let mut crafter = Crafter::new(identity.server(&[TLS13]));
    let mut tls = connect(&mut crafter, Arc::clone(&client), RecordPath::Own).unwrap();
    let mut hand = crafter.finish();
    for _ in 0..5 {
        for _ in 0..3 {
            tls.send(b"x").unwrap();
            assert_eq!(hand.receive.open(tls.outgoing()), (DATA, b"x".to_vec()));
        }
        assert!(tls.outgoing().is_empty());
        tls.send(b"y").unwrap();
        assert_eq!(hand.receive.open(tls.outgoing()), (HANDSHAKE, UPDATE.to_vec()));
        hand.update_receive_keys();
        assert_eq!(hand.receive.open(tls.outgoing()), (DATA, b"y".to_vec()));
        for _ in 0..2 {
            tls.send(b"z").unwrap();
            hand.receive.open(tls.outgoing());
        }
        // Asked for, too: the answer is the fourth record, and the count begins again.
        let update = hand.send.record(HANDSHAKE, &UPDATE_BOTH, 0);
        hand.update_send_keys();
        take(&mut tls, &update);
        assert_eq!(hand.receive.open(tls.outgoing()), (HANDSHAKE, UPDATE.to_vec()));
        hand.update_receive_keys();
    }

    // And rustls follows, across one long write as well.
    let mut server = Server::new(identity.server(&[TLS13]));
    let mut tls = connect(&mut server, client, RecordPath::Own).unwrap();
    let long: Vec<u8> = (0..20 << 14).map(|n: u32| (n >> 3) as u8).collect();
    tls.send(&long).unwrap();
    assert!(server.receive(tls.outgoing()) == long);
}

/// TLS 1.2 has no key update: the last record says goodbye.
#[test]
fn tls12_keys_end_with_a_goodbye() {
    let identity = Identity::new("localhost", |_| ());
    let mut crafter = Crafter::new(identity.server(&[TLS12]));
    let client = identity.client(&[four_records(TLS12)]);
    let mut tls = connect(&mut crafter, client, RecordPath::Own).unwrap();
    let mut hand = crafter.finish();
    // The handshake's `Finished` was the first.
    tls.send(b"2").unwrap();
    tls.send(b"3").unwrap();
    let error = tls.send(b"4").unwrap_err();
    assert!(matches!(error, TlsError::Record(RecordError::KeysUsedUp)), "{error}");
    for expected in [(DATA, b"2".to_vec()), (DATA, b"3".to_vec()), (ALERT, vec![1, 0])] {
        assert_eq!(hand.receive.open(tls.outgoing()), expected);
    }
    assert!(tls.outgoing().is_empty());
}
