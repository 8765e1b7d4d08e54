//! The record layer of TLS: streams of records that fixed keys seal, and bytes that nobody sealed.
//!
//! A mutilated sealed record fails its authentication and shows nothing. So an input is a script:
//! it says what is in the records, and the target seals them.

use quietcore_feed::tls::{Records, Step, Version};
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};

const KEY: [u8; 32] = [1; 32];
const IV: [u8; 12] = [2; 12];
const LIMIT: u64 = 64;

/// An item of a script: how it is to be taken, a content type, a length, so many bytes.
const ITEM: usize = 3;
/// The bytes go to the record layer as they are.
const RAW: u8 = 255;

/// A first byte that says the version, then items.
pub fn scripts() -> Vec<Vec<u8>> {
    let item = |padding: u8, content_type: u8, content: &[u8]| {
        [&[padding, content_type, content.len() as u8], content].concat()
    };
    let ticket = [4, 0, 0, 15, 0, 0, 14, 16, 1, 2, 3, 4, 1, 0, 0, 1, 99, 0, 0];
    let tls13 = [
        item(0, 23, b"data"),
        item(9, 22, &ticket),
        item(0, 22, &ticket[..7]),
        item(0, 22, &[&ticket[7..], &[24, 0, 0, 1, 1][..]].concat()),
        item(200, 23, b""),
        item(0, 22, &[24, 0, 0, 1, 0]),
        item(0, 21, &[1, 90]),
        item(RAW, 0, &[23, 3, 3, 0, 32]),
        item(0, 21, &[1, 0]),
    ];
    let tls12 = [
        item(0, 23, b"data"),
        item(0, 22, &[0, 0, 0, 0]),
        item(0, 21, &[1, 100]),
        item(0, 23, b""),
        item(0, 21, &[2, 40]),
    ];
    vec![
        [&[0][..], &tls13.concat()].concat(),
        [&[1][..], &tls12.concat()].concat(),
        [&[2][..], &tls13.concat()].concat(),
        [&[3][..], &tls12.concat()].concat(),
    ]
}

/// Every step is taken; bytes come out only as they went in; after an error it stays.
pub fn records(script: &[u8]) {
    let Some((kind, mut script)) = script.split_first() else { return };
    let mut server = Server::new(*kind);
    let secrets = || server.secrets();
    let version = if server.is_tls13 { Version::Tls13 } else { Version::Tls12 };
    let made = Records::new(version, (0, &secrets()), (0, &secrets()), LIMIT);
    let Some(mut records) = made else { panic!("the cipher is known") };
    let mut sent = 0;
    while let Some((item, rest)) = script.split_first_chunk::<ITEM>() {
        let [padding, content_type, length] = *item;
        let (content, rest) = rest.split_at(usize::from(length).min(rest.len()));
        script = rest;
        let bytes = if padding == RAW {
            content.to_vec()
        } else {
            sent += content.len();
            server.seal(content_type, content, padding)
        };
        records.space()[..bytes.len()].copy_from_slice(&bytes);
        records.filled(bytes.len());
        loop {
            match records.step() {
                // Shorter where the content type is 0: the type is then the content's last other byte.
                Ok(Step::Data(data)) => assert!(content.starts_with(records.at(data))),
                Ok(Step::More) => break,
                Ok(Step::Ticket(ticket)) => assert!(records.ticket(ticket).len() <= sent),
                Ok(Step::KeyUpdate { asked }) => {
                    // The same keys again, as nothing here keeps a secret.
                    server.sequence = 0;
                    assert!(records.set_receive_keys((0, &server.secrets())));
                    if asked {
                        let _ = records.update_send_keys((0, &server.secrets()), LIMIT);
                    }
                }
                Err(error) => {
                    assert_eq!(records.step(), Err(error.clone()));
                    assert_eq!(records.send(b"x"), Err(error));
                    return;
                }
            }
        }
    }
}

/// Seals as RFC 8446 section 5.2 has it, and RFC 5288 and RFC 7905 for TLS 1.2.
struct Server {
    is_tls13: bool,
    is_chacha: bool,
    sequence: u64,
}

impl Server {
    fn new(kind: u8) -> Self {
        Self { is_tls13: kind & 1 == 0, is_chacha: kind & 2 != 0, sequence: 0 }
    }

    fn secrets(&self) -> ConnectionTrafficSecrets {
        let (key, iv) = (AeadKey::from(KEY), Iv::from(IV));
        if self.is_chacha {
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }
        } else {
            ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        }
    }

    fn seal(&mut self, content_type: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let algorithm = if self.is_chacha { &CHACHA20_POLY1305 } else { &AES_256_GCM };
        let Ok(key) = UnboundKey::new(algorithm, &KEY) else { panic!("32 bytes are a key") };
        let mut nonce = IV;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        let mut inner = content.to_vec();
        let explicit = if self.is_tls13 || self.is_chacha { &[][..] } else { &nonce[4..] };
        if self.is_tls13 {
            inner.push(content_type);
            inner.resize(inner.len() + usize::from(padding), 0);
        }
        let outer = if self.is_tls13 { 23 } else { content_type };
        let length = (explicit.len() + inner.len() + 16) as u16;
        let mut record = [&[outer, 3, 3][..], &length.to_be_bytes()].concat();
        let mut data = record.clone();
        if !self.is_tls13 {
            data = self.sequence.to_be_bytes().to_vec();
            data.extend([outer, 3, 3]);
            data.extend((inner.len() as u16).to_be_bytes());
        }
        record.extend(explicit);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed =
            LessSafeKey::new(key).seal_in_place_append_tag(nonce, Aad::from(data), &mut inner);
        assert!(sealed.is_ok(), "a short record");
        record.extend(inner);
        self.sequence += 1;
        record
    }
}
