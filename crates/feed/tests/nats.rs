//! What an engine publishes, at a broker that is not ours.
#![cfg(feature = "nats")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use quietcore_feed::engine::Handler;
use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Level, Quote};
use quietcore_feed::publish::{Publisher, path_of};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// Debian's `nats-server`; ends with its test.
struct Broker(Child, u16);

impl Broker {
    fn start(port: u16, options: &[&str]) -> Self {
        let mut command = Command::new("nats-server");
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string()]).args(options);
        let child = command.stderr(Stdio::null()).spawn();
        let broker = Self(child.expect("nats-server, of the package of this name"), port);
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "nats-server does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        broker
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Somebody on another host, who knows the protocol and nothing of us.
struct Consumer(BufReader<TcpStream>);

impl Consumer {
    fn of(broker: &Broker) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", broker.1)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut consumer = Self(BufReader::new(stream));
        consumer.say("CONNECT {\"verbose\":false}\r\nSUB quietcore.test.> 1\r\nPING\r\n");
        while consumer.line() != "PONG" {}
        consumer
    }

    fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the broker has gone");
        line.trim_end().to_owned()
    }

    /// The next message: its subject and its object.
    fn next(&mut self) -> (String, Value) {
        loop {
            let line = self.line();
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["PING"] => self.say("PONG\r\n"),
                ["MSG", subject, _, length] => {
                    let mut text = vec![0; length.parse::<usize>().unwrap() + 2];
                    self.0.read_exact(&mut text).unwrap();
                    return (subject.to_owned(), serde_json::from_slice(&text).unwrap());
                }
                _ => {}
            }
        }
    }
}

/// The command, for what process `pid` publishes.
fn feed_nats(pid: u32, server: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quietcore-feed"));
    command.args(["nats", &pid.to_string(), "--server", server]);
    command
}

/// An engine in a process of its own, for a process has one publisher.
struct Engine(Child);

impl Engine {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quietcore-feed"));
        command.args(["run", "--demo", "--publish", "--quiet", "--duration", "60s"]);
        let engine = Self(command.stdout(Stdio::null()).spawn().unwrap());
        let end = Instant::now() + PATIENCE;
        while !path_of(engine.0.id()).exists() {
            assert!(Instant::now() < end, "nothing is published");
            thread::sleep(Duration::from_millis(10));
        }
        engine
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
        drop(fs::remove_file(path_of(self.0.id())));
        drop(fs::remove_file(quietcore_sys::live::path_of(self.0.id())));
    }
}

fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    receive
}

fn said_by(lines: &Receiver<String>, part: &str) {
    while !lines.recv_timeout(PATIENCE).expect(part).contains(part) {}
}

/// Below those that the kernel gives to whoever connects, for it is used again.
fn free_port() -> u16 {
    static LAST: AtomicU16 = AtomicU16::new(20_000);
    loop {
        let port = LAST.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

#[test]
fn consumers_see_all_that_a_broker_was_there_for_and_how_much_it_was_not() {
    let port = free_port();
    let broker = Broker::start(port, &[]);
    let mut consumer = Consumer::of(&broker);
    let mut publisher = Publisher::new(&["BTCUSDT".to_owned()]).unwrap();
    let level = |price| Level { price: Fixed(price), quantity: Fixed(250_000_000) };
    let mut update = 0;
    let mut publish = |count| {
        for _ in 0..count {
            update += 1;
            let (bid, ask) = (level(6_178_950_000_000), level(6_178_960_000_000));
            publisher.quote(0, &Quote { update, bid, ask, time_ms: 7 });
        }
        update
    };
    let mut command = feed_nats(process::id(), &format!("nats://127.0.0.1:{port}"));
    command.args(["--subject", "quietcore.test", "--format", "json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut nats = command.spawn().unwrap();
    let lines = lines_of(nats.stderr.take().unwrap());
    said_by(&lines, "publishing quietcore.test.SYMBOL.KIND");

    publish(50);
    for number in 1..=50 {
        let (subject, object) = consumer.next();
        assert_eq!(subject, "quietcore.test.BTCUSDT.quote");
        assert_eq!(object["sequence"], number);
        let quote = &object["quote"];
        assert_eq!((&quote["update"], &quote["time_ms"]), (&number.into(), &7.into()));
        assert_eq!(quote["bid"], serde_json::json!(["61789.5", "2.5"]));
        assert!(object["age_ns"].as_u64().unwrap() > 0);
    }

    drop(broker);
    said_by(&lines, "the broker is away");
    let last_unsent = publish(20);
    // It is given time to read them.
    thread::sleep(Duration::from_secs(1));
    let broker = Broker::start(port, &[]);
    said_by(&lines, "the broker is back");
    let mut consumer = Consumer::of(&broker);
    publish(5);
    for n in 1..=5 {
        let (_, object) = consumer.next();
        let number = last_unsent + n;
        assert_eq!(
            (&object["sequence"], &object["quote"]["update"]),
            (&number.into(), &number.into())
        );
    }

    drop(publisher);
    let output = nats.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "something was lost");
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["sections"][0]["name"], "feed_nats");
    assert_eq!(run["sections"][0]["rows"][0], serde_json::json!([55, 20, 0, 1]));
    assert_eq!(run["validity"]["verdict"], "incomplete");
}

#[test]
fn a_broker_that_wants_tls_and_a_password_gets_both() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let (mut engine, port) = (Engine::start(), free_port());
    let asks =
        ["--tls", "--tlscert", certificate, "--tlskey", key, "--user", "feed", "--pass", "b"];
    let _broker = Broker::start(port, &asks);
    let server = format!("tls://feed:b@127.0.0.1:{port}");
    let pid = engine.0.id();
    let nats = || feed_nats(pid, &server);

    let output =
        nats().args(["--roots", certificate, "--duration", "1s", "--format", "json"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(run["sections"][0]["rows"][0][0].as_u64().unwrap() > 0, "{run}");

    let refused = nats().args(["--duration", "1s"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("no NATS broker at 127.0.0.1"), "{said}");

    // An engine that is killed ends it, too.
    let mut command = nats();
    command.args(["--roots", certificate]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut nats = command.spawn().unwrap();
    said_by(&lines_of(nats.stderr.take().unwrap()), "publishing");
    engine.0.kill().unwrap();
    engine.0.wait().unwrap();
    assert_eq!(nats.wait().unwrap().code(), Some(0));
}

#[test]
fn what_keeps_it_from_a_broker_is_said_in_one_line() {
    let engine = Engine::start();
    let nowhere = format!("nats://user:secret@127.0.0.1:{}", free_port());
    let cases: [(&str, &[&str], &str); 4] = [
        (&nowhere, &[], "no NATS broker at 127.0.0.1"),
        ("http://user:secret@a b", &[], "a b: an address looks like nats://127.0.0.1:4222"),
        (&nowhere, &["--credentials", "/nowhere.creds"], "/nowhere.creds: no NATS credentials"),
        (&nowhere, &["--subject", "a..b"], "words with dots between them"),
    ];
    for (server, args, expected) in cases {
        let output = feed_nats(engine.0.id(), server).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && !said.contains("secret"), "{said}");
    }
}
