//! Handshakes that fail, and what is said about it.

use std::io::{self, Read, Write};

use rustls::crypto::ring::cipher_suite;

use quietcore_feed::tls::{RecordPath, Roots, Tls, TlsError, client_config};

use super::peer::{Crafter, Identity, SUITES, Server, connect};

const BOTH: [RecordPath; 2] = [RecordPath::Own, RecordPath::Rustls];

/// A socket that says something else than TLS, `chunk` bytes at a time, and then ends as told.
struct Stranger {
    says: &'static [u8],
    chunk: usize,
    ends: Option<io::ErrorKind>,
}

impl Read for Stranger {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.says.is_empty() {
            return self.ends.map_or(Ok(0), |kind| Err(kind.into()));
        }
        let length = self.chunk.min(buffer.len());
        self.says.take(length as u64).read(buffer).inspect(|read| self.says = &self.says[*read..])
    }
}

impl Write for Stranger {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn strange(says: &'static [u8], ends: Option<io::ErrorKind>, part: &str) {
    let identity = Identity::new("localhost", |_| ());
    for (path, chunk) in BOTH.into_iter().flat_map(|path| [(path, 1), (path, 1_000)]) {
        let mut stranger = Stranger { says, chunk, ends };
        let error = connect(&mut stranger, identity.client(&SUITES), path).unwrap_err();
        assert!(error.to_string().contains(part), "{path:?} {chunk}: {error}");
    }
}

#[test]
fn what_is_not_tls_is_recognised() {
    let answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>";
    strange(answer, None, "plain HTTP came back (\"HTTP/1.1 400 Bad Request\")");
    strange(b"HTTP/1.0 302 Fo", None, "(\"HTTP/1.0 302 Fo\")");
    strange(b"HTTP/1.1 200 ", Some(io::ErrorKind::WouldBlock), "plain HTTP");
    strange(b"SSH-2.0-OpenSSH_9.2\r\n", None, "not TLS (it begins [53, 53, 48,");
    strange(&[22, 9, 9, 0, 0], None, "not TLS");
    strange(&[23, 3, 3, 255, 255], None, "handshake failed");
}

#[test]
fn a_socket_that_ends_says_why() {
    strange(b"", None, "closed during the TLS handshake");
    strange(&[22, 3, 3], None, "closed during the TLS handshake");
    strange(b"", Some(io::ErrorKind::ConnectionReset), "closed during the TLS handshake");
    strange(b"", Some(io::ErrorKind::WouldBlock), "time limit");
    strange(b"", Some(io::ErrorKind::TimedOut), "time limit");
    strange(b"", Some(io::ErrorKind::ConnectionRefused), "nothing listens there");
    strange(b"", Some(io::ErrorKind::Other), "the socket failed");
    // A plaintext alert: handshake_failure, protocol_version, unrecognized_name.
    strange(&[21, 3, 3, 0, 2, 2, 40], None, "handshake_failure (40): it shares no cipher suite");
    strange(&[21, 3, 1, 0, 2, 2, 70], None, "protocol_version (70): it speaks neither");
    strange(&[21, 3, 3, 0, 2, 2, 112], None, "check the host");
}

fn issued_by_nobody_here() -> Identity {
    Identity::new("localhost", |params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "somebody else");
    })
}

/// The client's error for a server with this certificate; the server hears of it.
fn refused(identity: &Identity, part: &str) {
    let trusting = Identity::new("localhost", |_| ());
    let trusts_another = part.contains("trusted here");
    for (path, suite) in BOTH.into_iter().flat_map(|path| SUITES.map(|suite| (path, suite))) {
        let client =
            if trusts_another { trusting.client(&SUITES) } else { identity.client(&SUITES) };
        let mut server = Server::new(identity.server(&[suite]));
        let error = connect(&mut server, client, path).unwrap_err();
        assert!(error.to_string().contains(part), "{path:?}: {error}");
        let heard = server.connection.process_new_packets().unwrap_err();
        assert!(matches!(heard, rustls::Error::AlertReceived(_)), "{path:?}: {heard}");
    }
}

#[test]
fn bad_certificates_are_told_apart() {
    let expired = Identity::new("localhost", |params| {
        params.not_after = rcgen::date_time_ymd(2001, 2, 3);
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    });
    refused(&expired, "days ago: check this machine's clock");
    let early = Identity::new("localhost", |params| {
        params.not_before = rcgen::date_time_ymd(3000, 1, 1);
        params.not_after = rcgen::date_time_ymd(3001, 1, 1);
    });
    refused(&early, "not valid yet, for ");
    let other = Identity::new("other.example", |_| ());
    refused(&other, "is not for localhost but for");
    let same_name = Identity::new("localhost", |_| ());
    refused(&same_name, "a root of the same name but with another key is trusted here");
    let unknown = issued_by_nobody_here();
    refused(&unknown, "is not signed by a root trusted here: perhaps a proxy or a captive portal");
}

/// The server has nothing in common with us: the alert is its own.
#[test]
fn a_server_that_refuses_is_quoted() {
    let identity = Identity::new("localhost", |_| ());
    for path in BOTH {
        // RSA suites alone, for an ECDSA certificate.
        let suites = [cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];
        let mut server = Server::new(identity.server(&suites));
        let error = connect(&mut server, identity.client(&SUITES), path).unwrap_err();
        assert!(matches!(error, TlsError::Refusal(_)), "{error}");
        assert!(error.to_string().contains("refused the handshake with"), "{error}");
    }
}

/// The configuration that the engine uses, with a file of roots.
#[test]
fn a_file_of_roots_is_what_is_trusted() {
    let identity = Identity::new("localhost", |_| ());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("roots.pem");
    std::fs::write(&path, &identity.pem).unwrap();
    let config = client_config(Roots::File(path)).unwrap();
    for record_path in BOTH {
        let mut crafter = Crafter::new(identity.server(&SUITES));
        connect(&mut crafter, config.clone(), record_path).unwrap();
        let mut server = Server::new(issued_by_nobody_here().server(&SUITES));
        let error = connect(&mut server, config.clone(), record_path).unwrap_err();
        assert!(matches!(error, TlsError::UnknownIssuer), "{error}");
    }
}

/// Without the machine's certificates Mozilla's are there; either way a stranger is not trusted.
#[test]
fn the_systems_roots_do_not_trust_strangers() {
    let config = client_config(Roots::System).unwrap();
    let mut server = Server::new(issued_by_nobody_here().server(&SUITES));
    let name = "localhost".try_into().unwrap();
    let error = Tls::connect(&mut server, name, config, RecordPath::Own).unwrap_err();
    assert!(matches!(error, TlsError::UnknownIssuer), "{error}");
}
