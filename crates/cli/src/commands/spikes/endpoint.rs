//! A page for Prometheus. Threads of its own talk to clients; only the monitor itself makes the
//! text, so that no client, however slow, keeps it from its work.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

/// How long a client may take to ask, and again to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A request is longer than no sane client's.
const REQUEST: usize = 8 * 1024;
/// Clients at a time; further ones are turned away.
const CLIENTS: usize = 8;

/// Who waits for the text.
type Asker = Sender<String>;

/// The page.
#[derive(Debug)]
pub(super) struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    ask: Sender<Asker>,
    asked: Receiver<Asker>,
}

impl Endpoint {
    /// Takes the address, before anything is attached.
    pub fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let taken = || format!("--metrics: cannot listen on {address}");
        let listener = TcpListener::bind(address).with_context(taken)?;
        let address = listener.local_addr().with_context(taken)?;
        let (ask, asked) = channel();
        Ok(Self { listener, address, ask, asked })
    }

    /// Where it listens: the port that was found, where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to answer, from threads that end with the process.
    pub fn serve(&self) -> anyhow::Result<()> {
        let listener = self.listener.try_clone().context("--metrics")?;
        let ask = self.ask.clone();
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || accept(&listener, &ask))
            .context("--metrics")?;
        Ok(())
    }

    /// Answers everybody who has asked since the last call with one text.
    pub fn answer(&self, text: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<()> {
        let askers: Vec<Asker> = self.asked.try_iter().collect();
        if !askers.is_empty() {
            let text = text()?;
            for asker in askers {
                // One that has given up meanwhile misses nothing.
                let _ = asker.send(text.clone());
            }
        }
        Ok(())
    }
}

fn accept(listener: &TcpListener, ask: &Sender<Asker>) {
    let clients = Arc::new(());
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Out of file descriptors, say: it may pass, and must not take a CPU meanwhile.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if Arc::strong_count(&clients) > CLIENTS {
            continue;
        }
        let (client, ask) = (Arc::clone(&clients), ask.clone());
        let _ = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            serve(stream, &ask);
            drop(client);
        });
    }
}

/// A client that hangs up or stalls is its own loss.
fn serve(mut stream: TcpStream, ask: &Sender<Asker>) {
    let (status, body) = match request(&mut stream) {
        Ok(Request::Metrics) => match metrics(ask) {
            Some(text) => ("200 OK", text),
            None => ("503 Service Unavailable", "the monitor is busy\n".to_owned()),
        },
        Ok(Request::Elsewhere) => ("404 Not Found", "see /metrics\n".to_owned()),
        Ok(Request::OtherMethod) => ("405 Method Not Allowed", "only GET\n".to_owned()),
        Ok(Request::Nonsense) => ("400 Bad Request", "not HTTP\n".to_owned()),
        Err(_) => return,
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

fn metrics(ask: &Sender<Asker>) -> Option<String> {
    let (asker, answer) = channel();
    ask.send(asker).ok()?;
    answer.recv_timeout(PATIENCE).ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Metrics,
    Elsewhere,
    OtherMethod,
    Nonsense,
}

/// Reads until the request is whole, wrong, too long or too late.
fn request(stream: &mut TcpStream) -> std::io::Result<Request> {
    let begin = Instant::now();
    let mut bytes = Vec::new();
    while bytes.len() < REQUEST {
        let rest = PATIENCE.checked_sub(begin.elapsed()).filter(|rest| !rest.is_zero());
        stream.set_read_timeout(Some(rest.ok_or(ErrorKind::TimedOut)?))?;
        let mut some = [0; 1024];
        let count = stream.read(&mut some)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&some[..count]);
        if let Some(request) = parse(&bytes) {
            return Ok(request);
        }
    }
    Ok(Request::Nonsense)
}

/// `None` while there is more to come.
fn parse(bytes: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Err(_) => Some(Request::Nonsense),
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or_default().split('?').next();
            Some(match (request.method, path) {
                (Some("GET"), Some("/metrics")) => Request::Metrics,
                (Some("GET"), _) => Request::Elsewhere,
                _ => Request::OtherMethod,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let of = |text: &str| parse(text.as_bytes());
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Some(Request::Metrics));
        assert_eq!(of("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), Some(Request::Metrics));
        assert_eq!(of("GET / HTTP/1.1\r\n\r\n"), Some(Request::Elsewhere));
        assert_eq!(of("POST /metrics HTTP/1.1\r\n\r\n"), Some(Request::OtherMethod));
        assert_eq!(of("\u{1}\u{2}garbage\r\n\r\n"), Some(Request::Nonsense));
        assert_eq!(of("GET /metrics HTT"), None);
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn clients_that_say_nothing_do_not_keep_others_from_an_answer() {
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.serve().unwrap();
        let address = endpoint.address();
        let _silent: Vec<_> =
            (0..CLIENTS - 1).map(|_| TcpStream::connect(address).unwrap()).collect();
        let scrape = thread::spawn(move || ask(address, b"GET /metrics HTTP/1.1\r\n\r\n"));
        while !scrape.is_finished() {
            endpoint.answer(|| Ok("x 1\n".to_owned())).unwrap();
            thread::yield_now();
        }
        let text = scrape.join().unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nx 1\n"), "{text}");
    }

    #[test]
    fn garbage_is_refused_and_an_occupied_port_is_named() {
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.serve().unwrap();
        let text = ask(endpoint.address(), b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
        let error = format!("{:#}", Endpoint::bind(endpoint.address()).unwrap_err());
        assert!(error.contains(&endpoint.address().to_string()), "{error}");
        assert!(error.contains("in use"), "{error}");
    }
}
