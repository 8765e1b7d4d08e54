//! A client's WebSocket: what it asks for, what it gets, and what goes wrong with it.

mod books;
mod faults;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tungstenite::error::ProtocolError;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tungstenite::{Bytes, Error, Message, WebSocket};

use crate::server::control::{self, Command};
use crate::server::fault::{Injector, Strike};
use crate::server::hub::{Member, lock};
use crate::server::session::{LAST_WORDS, granted};
use crate::server::source::Event;
use crate::server::stream::{Address, Route, Stream};
use crate::server::venue::Shared;
use crate::server::wake::Wake;
use crate::server::wire::Wire;

/// Records sealed before the client is listened to again.
const TURN: usize = 64;
/// How long a client has to take what is sent before the end, unless the venue stops.
const PATIENCE: Duration = Duration::from_secs(10);
/// Streams a client may listen to.
const MOST_STREAMS: usize = 1_024;

/// How a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// With a close frame.
    Close(u16, String),
    /// With nothing.
    Cut,
    /// The client ended it.
    Gone,
}

/// The connection after its upgrade.
pub(super) struct Socket<'a> {
    shared: &'a Shared,
    websocket: WebSocket<Wire>,
    member: Arc<Member>,
    address: Address,
    /// Streams as the client names them.
    names: Vec<String>,
    listened: HashMap<Stream, Vec<String>>,
    /// Events of these streams up to that moment are in the snapshot that was sent.
    known_until: HashMap<Stream, u64>,
    injector: Injector,
    opened: Instant,
    next_ping: Instant,
    /// Since when pings are unanswered, and how many.
    unanswered: Option<Instant>,
    pings: u64,
    incoming: VecDeque<Instant>,
    silent_until: Option<Instant>,
    batch: Vec<Arc<Event>>,
    strikes: Vec<Strike>,
    end: Option<End>,
}

fn bytes_of(text: String) -> Bytes {
    Bytes::from(text.into_bytes())
}

impl<'a> Socket<'a> {
    /// `rest`: what came after the request for the upgrade.
    pub(super) fn new(
        shared: &'a Shared,
        wire: Wire,
        wake: Arc<Wake>,
        address: Address,
        rest: Vec<u8>,
    ) -> Self {
        let limits = WebSocketConfig::default().write_buffer_size(0).read_buffer_size(4_096);
        let now = Instant::now();
        Self {
            websocket: WebSocket::from_partially_read(wire, rest, Role::Server, Some(limits)),
            member: Arc::new(Member::new(shared.config.queue, wake)),
            address,
            names: Vec::new(),
            listened: HashMap::new(),
            known_until: HashMap::new(),
            injector: Injector::new(Arc::clone(&shared.armed), shared.elapsed()),
            opened: now,
            next_ping: now + shared.config.ping_every,
            unanswered: None,
            pings: 0,
            incoming: VecDeque::new(),
            silent_until: None,
            batch: Vec::new(),
            strikes: Vec::new(),
            end: None,
            shared,
        }
    }

    /// Grants the upgrade and listens to the streams of the address.
    pub(super) fn open(&mut self, key: &str) -> io::Result<()> {
        io::Write::write_all(self.wire(), &granted(key))?;
        self.wire().seal()?;
        self.wire().drain()?;
        let names = std::mem::take(&mut self.address.streams);
        // Even with none: it is to hear when the market starts and ends.
        self.listen_to(names);
        Ok(())
    }

    fn wire(&mut self) -> &mut Wire {
        self.websocket.get_mut()
    }

    /// Writes everything, unless the client does not take it by then.
    fn flush(&mut self, until: Instant) -> io::Result<()> {
        let is_stopping = &self.shared.is_stopping;
        self.websocket.get_mut().flush_until(until, is_stopping)
    }

    /// Serves until the end.
    pub(super) fn run(&mut self) -> io::Result<()> {
        loop {
            self.receive()?;
            self.send_waiting()?;
            // Last, so that what it saw is still so when the thread waits.
            self.look_at_clock();
            self.act()?;
            if let Some(end) = self.end.take() {
                return self.finish(end);
            }
            self.wire().seal()?;
            self.wire().drain()?;
            let can_send = self.wire().is_clear() && !self.is_silent() && self.member.has_events();
            if !can_send {
                let until = self.next_moment();
                self.wire().wait(Some(until))?;
            }
        }
    }

    /// Leaves the market; bytes written so far.
    pub(super) fn leave(&mut self) -> u64 {
        self.shared.hub.leave(&self.member);
        self.wire().total()
    }

    fn is_silent(&self) -> bool {
        self.silent_until.is_some_and(|until| Instant::now() < until)
    }

    /// Reads what the client sent.
    fn receive(&mut self) -> io::Result<()> {
        self.wire().fill()?;
        while self.end.is_none() {
            match self.websocket.read() {
                Ok(message) => self.received(message),
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => self.refuse(&error),
            }
        }
        // Answers to pings and closes go out with the next record.
        let _ = self.websocket.flush();
        Ok(())
    }

    /// Closes for what the client did wrong, with the code of RFC 6455 section 7.4.1.
    fn refuse(&mut self, error: &Error) {
        match error {
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                self.end = Some(End::Gone);
            }
            Error::Protocol(_) => self.close(1002, "Protocol error"),
            Error::Utf8(_) => self.close(1007, "Not UTF-8"),
            Error::Capacity(_) => self.close(1009, "Too large"),
            _ => self.end = Some(End::Gone),
        }
    }

    fn received(&mut self, message: Message) {
        match message {
            Message::Pong(_) if self.pings > 0 => {
                self.pings -= 1;
                self.unanswered = None;
                return;
            }
            Message::Close(_) | Message::Frame(_) => return,
            Message::Text(text) if self.address.route == Route::Okx => self.books_command(&text),
            Message::Text(text) => self.command(&text),
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => {}
        }
        let now = Instant::now();
        self.incoming.push_back(now);
        while self.incoming.front().is_some_and(|at| now.duration_since(*at).as_secs() >= 1) {
            self.incoming.pop_front();
        }
        if self.incoming.len() > self.shared.config.incoming_per_second {
            self.close(1008, "Too many requests");
        }
    }

    fn command(&mut self, text: &str) {
        let answer = match control::read(text) {
            Err(answer) => answer,
            Ok((id, Command::List)) => control::done(&id, json!(self.names)),
            Ok((id, Command::Unsubscribe(names))) => {
                self.names.retain(|name| !names.contains(name));
                self.listen();
                control::done(&id, Value::Null)
            }
            Ok((id, Command::Subscribe(names))) => match self.elsewhere(&names) {
                Some(name) => control::not_here(&id, &name, self.address.route),
                None => {
                    // The answer comes before the first event.
                    self.say(control::done(&id, Value::Null));
                    return self.listen_to(names);
                }
            },
        };
        self.say(answer);
    }

    /// The first of these streams that another route serves.
    fn elsewhere(&self, names: &[String]) -> Option<String> {
        let source = lock(&self.shared.source);
        let is_elsewhere = |name: &&String| {
            let stream = source.stream(name);
            stream.is_some_and(|stream| !self.address.route.serves(stream.channel))
        };
        names.iter().find(is_elsewhere).cloned()
    }

    fn listen_to(&mut self, names: Vec<String>) {
        for name in names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        if self.names.len() > MOST_STREAMS {
            return self.close(1008, "Too many streams");
        }
        self.listen();
    }

    /// Tells the market what this client listens to.
    fn listen(&mut self) {
        self.listened.clear();
        let source = lock(&self.shared.source);
        for name in &self.names {
            if let Some(stream) = source.stream(name) {
                self.listened.entry(stream).or_default().push(name.clone());
            }
        }
        drop(source);
        let streams: HashSet<Stream> = self.listened.keys().copied().collect();
        self.shared.hub.listen(&self.member, streams);
    }

    fn say(&mut self, text: String) {
        self.frame(Frame::message(bytes_of(text), OpCode::Data(Data::Text), true));
    }

    fn frame(&mut self, frame: Frame) {
        if self.websocket.write(Message::Frame(frame)).is_err() {
            self.end = Some(End::Gone);
        }
    }

    fn ping(&mut self, payload: String) {
        self.pings += 1;
        self.unanswered.get_or_insert_with(Instant::now);
        self.frame(Frame::ping(bytes_of(payload)));
    }

    /// Says goodbye. That goes out at once: a slow connection is a fault of the script's, and its end
    /// is none.
    fn close(&mut self, code: u16, reason: &str) {
        self.wire().at_full_speed();
        self.end = Some(End::Close(code, reason.into()));
    }

    /// Whatever is due by now.
    fn look_at_clock(&mut self) {
        let now = Instant::now();
        let config = &self.shared.config;
        self.injector.moment(self.shared.elapsed(), &mut self.strikes);
        if now >= self.next_ping && !self.is_silent() && self.end.is_none() {
            self.next_ping = now + config.ping_every;
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.ping(time.as_millis().to_string());
        }
        if self.end.is_some() {
            return;
        }
        if self.shared.is_stopping.load(Ordering::Acquire) {
            self.close(1001, "The venue stops");
        } else if self.member.has_overflowed() {
            self.shared.counters.slow_readers.fetch_add(1, Ordering::Relaxed);
            self.close(1008, "Too slow");
        } else if now.duration_since(self.opened) >= config.longest {
            self.close(1001, "Connection is too old");
        } else if self
            .unanswered
            .is_some_and(|since| now.duration_since(since) >= config.pong_within)
        {
            self.close(1008, "Pong timeout");
        } else if self.shared.has_ended.load(Ordering::Acquire) && !self.member.has_events() {
            self.close(1000, "The market is over");
        }
    }

    /// When the clock has to be looked at again.
    fn next_moment(&self) -> Instant {
        let config = &self.shared.config;
        let scripted = self.injector.due().zip(self.shared.started.get());
        let pong = self.unanswered.map(|since| since + config.pong_within);
        let others = [self.silent_until, pong, scripted.map(|(due, start)| *start + due)];
        let now = Instant::now();
        let soonest = others.into_iter().flatten().filter(|at| *at > now).min();
        let known = self.next_ping.min(self.opened + config.longest);
        // While silent, a ping that is due waits.
        let known = if known <= now { now + LAST_WORDS } else { known };
        soonest.map_or(known, |at| at.min(known))
    }

    /// Sends what waits, record by record, as long as the socket takes it.
    fn send_waiting(&mut self) -> io::Result<()> {
        for _ in 0..TURN {
            if self.end.is_some() || self.is_silent() || !self.wire().is_clear() {
                break;
            }
            let mut batch = std::mem::take(&mut self.batch);
            self.member.take(self.shared.config.coalesce.max(1), &mut batch);
            let is_empty = batch.is_empty();
            for event in batch.drain(..) {
                if self.known_until.get(&event.stream).is_some_and(|until| event.at <= *until) {
                    continue;
                }
                let symbol =
                    self.shared.symbols.get(event.stream.symbol).map_or("", String::as_str);
                self.injector.event(&event, symbol, &mut self.strikes);
            }
            self.batch = batch;
            self.act()?;
            self.wire().seal()?;
            self.wire().drain()?;
            if is_empty {
                break;
            }
        }
        Ok(())
    }

    /// Does what the injector said.
    fn act(&mut self) -> io::Result<()> {
        let mut strikes = std::mem::take(&mut self.strikes);
        for strike in strikes.drain(..) {
            if self.end.is_some() {
                break;
            }
            match strike {
                Strike::Send { event, in_fragments } => self.deliver(&event, in_fragments),
                Strike::Do(fault) => self.go_wrong(fault)?,
            }
        }
        self.strikes = strikes;
        Ok(())
    }

    fn deliver(&mut self, event: &Event, in_fragments: bool) {
        let names = self.listened.get(&event.stream).cloned().unwrap_or_default();
        for name in names {
            let text = self.written(event, &name);
            self.shared.counters.messages.fetch_add(1, Ordering::Relaxed);
            if in_fragments {
                self.fragments(&text);
            } else {
                self.say(text);
            }
        }
    }

    /// An event's text for this client.
    fn written(&self, event: &Event, name: &str) -> String {
        let mut text = if self.address.route == Route::Okx {
            books::wrapped(name, &event.text)
        } else if self.address.is_combined {
            format!("{{\"stream\":\"{name}\",\"data\":{}}}", event.text)
        } else {
            event.text.clone()
        };
        if self.shared.config.has_send_time && text.ends_with('}') {
            text.pop();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            text.push_str(&format!(",\"sent\":{}}}", now.as_nanos()));
        }
        text
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        match end {
            End::Gone => {
                self.wire().say_goodbye()?;
                self.flush(Instant::now() + LAST_WORDS)?;
            }
            End::Cut => {
                self.flush(Instant::now() + PATIENCE)?;
                self.wire().cut_off();
            }
            End::Close(code, reason) => {
                let until = Instant::now() + PATIENCE;
                let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
                if self.websocket.close(Some(frame)).is_ok() {
                    self.flush(until)?;
                    self.wait_for_close(until)?;
                }
                self.wire().say_goodbye()?;
                self.flush(Instant::now() + LAST_WORDS)?;
            }
        }
        Ok(())
    }

    /// Reads on until the client has closed, too.
    fn wait_for_close(&mut self, until: Instant) -> io::Result<()> {
        loop {
            self.wire().fill()?;
            match self.websocket.read() {
                Ok(_) => continue,
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Ok(()),
            }
            let is_stopping = self.shared.is_stopping.load(Ordering::Acquire);
            if Instant::now() >= until || is_stopping || self.wire().has_ended() {
                return Ok(());
            }
            self.wire().wait(Some(until))?;
        }
    }
}
