//! Against OpenSSL's `s_server`, which makes its records as another hand wrote them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use quietcore_feed::tls::{RecordPath, Roots, Tls, client_config};

use super::peer::Identity;

const TLS13_SUITES: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// `openssl s_server` on a port of its own, and a client at it.
struct Session {
    server: Child,
    says: ChildStdin,
    hears: ChildStdout,
    heard: Vec<u8>,
    socket: TcpStream,
    tls: Tls,
}

impl Session {
    /// `folder` has `certificate.pem` and `key.pem`.
    fn new(folder: &Path, arguments: &[&str]) -> Self {
        let mut server = Command::new("openssl")
            .current_dir(folder)
            .args(["s_server", "-accept", "127.0.0.1:0", "-cert", "certificate.pem"])
            .args(["-key", "key.pem", "-naccept", "1"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program openssl is part of these tests");
        let says = server.stdin.take().unwrap();
        let mut hears = server.stdout.take().unwrap();
        let mut heard = Vec::new();
        let address = loop {
            if let Some(line) = line_after(&heard, "ACCEPT ") {
                break line;
            }
            read_more(&mut hears, &mut heard);
        };
        let mut socket = TcpStream::connect(&address).unwrap();
        // Only a hanging test gets here.
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let config = client_config(Roots::File(folder.join("certificate.pem"))).unwrap();
        let name = "localhost".try_into().unwrap();
        let tls = Tls::connect(&mut socket, name, config, RecordPath::Own).unwrap();
        Self { server, says, hears, heard, socket, tls }
    }

    /// A line for the server to send, or a command to it.
    fn say(&mut self, line: &str) {
        self.says.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Reads from the socket once; what came of it.
    fn turn(&mut self) -> Vec<u8> {
        let count = self.socket.read(self.tls.space()).unwrap();
        assert!(count > 0, "the server went away");
        self.tls.filled(count);
        let mut plain = Vec::new();
        while let Some(record) = self.tls.next().unwrap() {
            plain.extend_from_slice(record);
        }
        self.flush();
        plain
    }

    fn flush(&mut self) {
        self.socket.write_all(self.tls.outgoing()).unwrap();
        self.tls.outgoing().clear();
    }

    /// Has the server send a line, and reads it.
    fn receive(&mut self, line: &str) {
        self.say(line);
        let mut got = Vec::new();
        while got.len() <= line.len() {
            got.extend(self.turn());
        }
        assert_eq!(String::from_utf8(got).unwrap(), format!("{line}\n"));
    }

    /// Sends a line, and has the server print it.
    fn send(&mut self, line: &str) {
        self.tls.send(format!("{line}\n").as_bytes()).unwrap();
        self.flush();
        while line_after(&self.heard, line).is_none() {
            read_more(&mut self.hears, &mut self.heard);
        }
    }

    /// Closes, and is answered.
    fn end(mut self) {
        self.tls.close();
        self.flush();
        while !self.tls.is_closed() {
            assert_eq!(self.turn(), b"");
        }
        assert!(self.server.wait().unwrap().success());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn read_more(hears: &mut ChildStdout, heard: &mut Vec<u8>) {
    let mut bytes = [0; 4_096];
    let count = hears.read(&mut bytes).unwrap();
    assert!(count > 0, "openssl ended: {}", String::from_utf8_lossy(heard));
    heard.extend(&bytes[..count]);
}

/// The rest of the whole line that begins so.
fn line_after(text: &[u8], start: &str) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let whole = &text[..text.rfind('\n')?];
    whole.lines().find_map(|line| line.strip_prefix(start).map(str::to_owned))
}

fn ecdsa() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::new("localhost", |_| ());
    std::fs::write(folder.path().join("certificate.pem"), &identity.pem).unwrap();
    std::fs::write(folder.path().join("key.pem"), &identity.key_pem).unwrap();
    folder
}

/// rcgen makes no RSA keys with ring.
fn rsa() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let settings = "[req]\nprompt = no\ndistinguished_name = name\nx509_extensions = extensions\n\
        [name]\nCN = localhost\n[extensions]\nsubjectAltName = DNS:localhost\n\
        basicConstraints = critical,CA:FALSE\n";
    std::fs::write(folder.path().join("settings"), settings).unwrap();
    let made = Command::new("openssl")
        .current_dir(folder.path())
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-config", "settings",
        ])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .stderr(Stdio::null())
        .status()
        .expect("the program openssl is part of these tests");
    assert!(made.success());
    folder
}

#[test]
fn tls13_with_key_updates() {
    let folder = ecdsa();
    for suite in TLS13_SUITES {
        let mut session = Session::new(folder.path(), &["-tls1_3", "-ciphersuites", suite]);
        assert_eq!(session.tls.negotiated().cipher_suite, suite);
        assert_eq!(session.tls.negotiated().version, "TLS 1.3");
        session.receive("1 hello");
        session.send("2 hello");
        for round in 0..3 {
            session.say("k");
            assert_eq!(session.turn(), b"", "a key update");
            session.receive(&format!("{round} after k"));
            session.send(&format!("{round} from us after k"));
            session.say("K");
            assert_eq!(session.turn(), b"", "a key update");
            session.receive(&format!("{round} after K"));
            session.send(&format!("{round} from us after K"));
        }
        session.end();
    }
}

#[test]
fn tls13_with_padding_and_small_records() {
    let folder = ecdsa();
    let long = "3.14159".repeat(1_500);
    for arguments in [["-record_padding", "777"], ["-max_send_frag", "512"]] {
        let mut session = Session::new(folder.path(), &[&["-tls1_3"], &arguments[..]].concat());
        session.receive(&long);
        session.send("1 hello");
        session.end();
    }
}

/// As a small web server it closes when it has answered.
#[test]
fn the_servers_close_is_seen() {
    let folder = ecdsa();
    for version in ["-tls1_3", "-tls1_2"] {
        let mut session = Session::new(folder.path(), &[version, "-www"]);
        session.tls.send(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        session.flush();
        let mut page = Vec::new();
        while !session.tls.is_closed() {
            page.extend(session.turn());
        }
        let page = String::from_utf8(page).unwrap();
        assert!(page.starts_with("HTTP/1.0 200 ok") && page.contains("s_server"), "{page}");
        assert!(session.server.wait().unwrap().success());
    }
}

#[test]
fn tls12_with_every_suite() {
    let certificates = [
        (
            ecdsa(),
            [
                "ECDHE-ECDSA-AES128-GCM-SHA256",
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
            ],
        ),
        (
            rsa(),
            [
                "ECDHE-RSA-AES128-GCM-SHA256",
                "ECDHE-RSA-AES256-GCM-SHA384",
                "ECDHE-RSA-CHACHA20-POLY1305",
            ],
        ),
    ];
    let long = "2.71828".repeat(1_500);
    for (folder, suites) in &certificates {
        for suite in suites {
            let mut session = Session::new(folder.path(), &["-tls1_2", "-cipher", suite]);
            assert_eq!(session.tls.negotiated().version, "TLS 1.2");
            for round in 0..3 {
                session.receive(&format!("{round} hello"));
                session.send(&format!("{round} hello from us"));
            }
            session.receive(&long);
            session.end();
        }
    }
}
