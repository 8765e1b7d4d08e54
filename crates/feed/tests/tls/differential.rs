//! The record path of our own gives what rustls's gives.

use proptest::prelude::*;
use rustls::SupportedCipherSuite;

use quietcore_feed::tls::{RecordPath, Tls};

use super::peer::{
    ALERT, Crafter, DATA, HANDSHAKE, Hand, Identity, Outcome, SUITES, Server, connect, feed,
};

/// What a well-behaved server does.
#[derive(Clone, Debug)]
enum Deed {
    Data(usize),
    UpdateKeys,
}

fn deeds(is_tls13: bool) -> impl Strategy<Value = Vec<Deed>> {
    let data = prop_oneof![
        6 => 0..600usize,
        2 => 600..5_000usize,
        1 => 16_300..40_000usize,
    ]
    .prop_map(Deed::Data);
    let weight = u32::from(is_tls13);
    let deed = prop_oneof![8 => data, weight => Just(Deed::UpdateKeys)];
    prop::collection::vec(deed, 0..25)
}

/// Pieces of the byte stream: single bytes, about a record, many records.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(vec![1]),
        prop::collection::vec(1..8usize, 1..9),
        prop::collection::vec(1..2_000usize, 1..9),
        prop::collection::vec(1..65_536usize, 1..9),
    ]
}

fn pattern(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + salt * 7) as u8).collect()
}

/// Both paths with a server each that does the same; the client answers in the middle.
fn run(
    identity: &Identity,
    suite: SupportedCipherSuite,
    path: RecordPath,
    deeds: &[Deed],
    sizes: &[usize],
) -> Outcome {
    let mut server = Server::new(identity.server(&[suite]));
    server.chunk = sizes[0];
    let mut tls = connect(&mut server, identity.client(&SUITES), path).unwrap();
    let mut whole = Outcome::default();
    for half in [&deeds[..deeds.len() / 2], &deeds[deeds.len() / 2..]] {
        for (salt, deed) in half.iter().enumerate() {
            match deed {
                Deed::Data(length) => server.send(&pattern(*length, salt)),
                Deed::UpdateKeys => server.update_keys(),
            }
        }
        let bytes: Vec<u8> = server.to_client.drain(..).collect();
        let outcome = feed(&mut tls, &bytes, sizes);
        assert_eq!(outcome.error, None);
        whole.records.extend(outcome.records);
        let said = pattern(20_000, 3);
        tls.send(&said).unwrap();
        assert!(server.receive(tls.outgoing()) == said, "the server reads what was sent");
    }
    server.close();
    let bytes: Vec<u8> = server.to_client.drain(..).collect();
    let outcome = feed(&mut tls, &bytes, sizes);
    whole.records.extend(outcome.records);
    whole.closed = outcome.closed;
    server.receive(tls.outgoing());
    assert!(tls.send(b"late").is_err());
    whole
}

fn same_as_rustls(suite: SupportedCipherSuite) {
    let identity = Identity::new("localhost", |_| ());
    let is_tls13 = suite.tls13().is_some();
    let config = ProptestConfig { cases: 16, ..ProptestConfig::default() };
    proptest!(config, |(deeds in deeds(is_tls13), sizes in sizes())| {
        let own = run(&identity, suite, RecordPath::Own, &deeds, &sizes);
        let rustls = run(&identity, suite, RecordPath::Rustls, &deeds, &sizes);
        prop_assert!(own.closed);
        prop_assert!(own == rustls, "{} and {} records", own.records.len(), rustls.records.len());
    });
}

#[test]
fn tls13_aes_128_gcm_gives_what_rustls_gives() {
    same_as_rustls(SUITES[0]);
}

#[test]
fn tls13_aes_256_gcm_gives_what_rustls_gives() {
    same_as_rustls(SUITES[1]);
}

#[test]
fn tls13_chacha20_poly1305_gives_what_rustls_gives() {
    same_as_rustls(SUITES[2]);
}

#[test]
fn tls12_aes_128_gcm_gives_what_rustls_gives() {
    same_as_rustls(SUITES[3]);
}

#[test]
fn tls12_aes_256_gcm_gives_what_rustls_gives() {
    same_as_rustls(SUITES[4]);
}

#[test]
fn tls12_chacha20_poly1305_gives_what_rustls_gives() {
    same_as_rustls(SUITES[5]);
}

/// What a server may do whose records are made by hand; not all of it is allowed.
#[derive(Clone, Debug)]
enum Craft {
    Data { length: usize, padding: usize },
    KeyUpdate { asks: bool },
    Ticket { parts: Vec<usize> },
    Alert(u8, u8),
    Record(u8, Vec<u8>),
    HelloRequest,
}

fn crafts(is_tls13: bool) -> impl Strategy<Value = Vec<Craft>> {
    let only_tls13 = u32::from(is_tls13);
    let craft = prop_oneof![
        40 => (0..300usize, 0..40usize).prop_map(|(length, padding)| Craft::Data { length, padding }),
        8 * only_tls13 => any::<bool>().prop_map(|asks| Craft::KeyUpdate { asks }),
        8 * only_tls13 => prop::collection::vec(1..40usize, 1..5).prop_map(|parts| Craft::Ticket { parts }),
        2 => (1..3u8, prop_oneof![Just(0u8), Just(90), Just(40), any::<u8>()])
            .prop_map(|(level, description)| Craft::Alert(level, description)),
        1 => (20..25u8, prop::collection::vec(any::<u8>(), 1..8))
            .prop_map(|(content_type, content)| Craft::Record(content_type, content)),
        2 * (1 - only_tls13) => Just(Craft::HelloRequest),
    ];
    prop::collection::vec(craft, 0..30)
}

/// A `NewSessionTicket` (RFC 8446 section 4.6.1): lifetime, age_add, nonce, ticket, extensions.
fn ticket() -> Vec<u8> {
    let mut body = vec![0, 0, 14, 16, 1, 2, 3, 4, 2, 0, 1, 0, 24];
    body.extend(pattern(24, 1));
    body.extend([0, 0]);
    [&[4, 0, 0, body.len() as u8][..], &body].concat()
}

fn craft(hand: &mut Hand, crafts: &[Craft]) -> Vec<u8> {
    let mut stream = Vec::new();
    for craft in crafts {
        match craft {
            Craft::Data { length, padding } => {
                stream.extend(hand.send.record(DATA, &pattern(*length, *length), *padding));
            }
            Craft::KeyUpdate { asks } => {
                stream.extend(hand.send.record(HANDSHAKE, &[24, 0, 0, 1, u8::from(*asks)], 3));
                hand.update_send_keys();
            }
            Craft::Ticket { parts } => {
                let ticket = ticket();
                let mut left = &ticket[..];
                for part in parts.iter().chain([&ticket.len()]) {
                    let (now, later) = left.split_at((*part).min(left.len()));
                    if !now.is_empty() {
                        stream.extend(hand.send.record(HANDSHAKE, now, 0));
                    }
                    left = later;
                }
            }
            Craft::Alert(level, description) => {
                stream.extend(hand.send.record(ALERT, &[*level, *description], 1));
            }
            Craft::Record(content_type, content) => {
                stream.extend(hand.send.record(*content_type, content, 0));
            }
            Craft::HelloRequest => stream.extend(hand.send.record(HANDSHAKE, &[0, 0, 0, 0], 0)),
        }
    }
    stream
}

fn crafted(identity: &Identity, suite: SupportedCipherSuite, path: RecordPath) -> (Tls, Hand) {
    let mut crafter = Crafter::new(identity.server(&[suite]));
    let tls = connect(&mut crafter, identity.client(&SUITES), path).unwrap();
    (tls, crafter.finish())
}

/// Whatever a server makes of its records, and whatever happens to one byte of them, both paths
/// give out the same records, and both go on or both do not.
#[test]
fn crafted_and_damaged_streams_end_as_with_rustls() {
    let identity = Identity::new("localhost", |_| ());
    for suite in SUITES {
        let is_tls13 = suite.tls13().is_some();
        let config = ProptestConfig { cases: 40, ..ProptestConfig::default() };
        let damage = prop::option::of((any::<prop::sample::Index>(), 1..=255u8));
        proptest!(config, |(crafts in crafts(is_tls13), damage in damage, sizes in sizes())| {
            let outcome = |path| {
                let (mut tls, mut hand) = crafted(&identity, suite, path);
                let mut stream = craft(&mut hand, &crafts);
                if let Some((index, bits)) = damage.filter(|_| !stream.is_empty()) {
                    let at = index.index(stream.len());
                    damage_outside_types(&mut stream, at, bits);
                }
                feed(&mut tls, &stream, &sizes)
            };
            let (own, rustls) = (outcome(RecordPath::Own), outcome(RecordPath::Rustls));
            prop_assert_eq!(&own.records, &rustls.records, "{:?} {:?}", own.error, rustls.error);
            prop_assert_eq!(own.error.is_some(), rustls.error.is_some(), "{:?} {:?}", own, rustls);
            prop_assert_eq!(own.closed, rustls.closed);
        });
    }
}

/// rustls takes a type and minor version in a header that RFC 8446 section 5.2 has authenticated,
/// and waits for records longer than section 5.2 allows: what is done there is no business of
/// this comparison.
fn damage_outside_types(stream: &mut [u8], at: usize, bits: u8) {
    let mut start = 0;
    while start + 5 <= stream.len() {
        if (start..start + 3).contains(&at) {
            return;
        }
        if at == start + 3 {
            stream[at] ^= bits & 0x3f;
            return;
        }
        start += 5 + usize::from(u16::from_be_bytes([stream[start + 3], stream[start + 4]]));
    }
    stream[at] ^= bits;
}
