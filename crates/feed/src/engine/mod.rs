//! The thread that owns the sockets.
//!
//! It reads, decrypts, understands and applies what comes, and never waits for anything else:
//! names, handshakes and snapshots are the business of two other threads (`keeper`).

mod books;
pub mod clock;
mod config;
mod dial;
mod handler;
mod handover;
mod keeper;
mod link;
mod rest;
mod routes;
mod tape;
mod wake;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use quietcore_sys::tsc::Rate;
use quietcore_sys::{live, sched};
use rustix::event::{Timespec, epoll};

use crate::recording;
use crate::stages::{Drain, ring};
use crate::sync::Market;
use crate::tls;
use crate::venues::Rule;
use books::Books;
use clock::HotClock;
use keeper::{Answer, Keeper, Means};
use link::Link;
use routes::{Need, Routes};
use tape::Tape;
use wake::Wake;

pub use books::Unused;
pub use config::{Address, Config, ConfigError, Mode, UrlError, parse_url};
pub use dial::{DialError, Dialled, Dialler};
pub use handler::Handler;
pub use keeper::Notice;
pub use link::LinkError;
pub use rest::{Rest, RestError};

/// How long the hot thread sleeps at most before it looks after what has no socket.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Spans of so many messages are kept for whoever follows them.
const SPANS: u32 = 1 << 14;

/// After so many rounds a spinning thread looks after the rest, whether or not it is idle.
const ROUNDS: u32 = 1 << 12;

/// An engine: everything but the thread that runs it.
#[derive(Debug)]
pub struct Engine<H> {
    config: Config,
    books: Books<H>,
    routes: Routes,
    answers: Receiver<Answer>,
    keeper: Keeper,
    wake: Arc<Wake>,
    epoll: std::os::fd::OwnedFd,
}

/// What whoever watches an engine gets.
#[derive(Debug)]
pub struct Watch {
    /// Every message's way, to be drained now and then.
    pub drain: Drain,
    /// What its ticks are.
    pub rate: Rate,
    /// The clock, for people.
    pub clock: String,
    /// What happened.
    pub notices: Receiver<Notice>,
}

/// What an engine has done.
#[derive(Debug)]
pub struct Summary {
    /// One per instrument, in the order of [`Config::symbols`].
    pub markets: Vec<Market>,
    /// What could not be used.
    pub unused: Unused,
    /// Times that a connection was opened.
    pub connections: u64,
    /// Times that a connection was replaced by a newer one in time.
    pub renewals: u64,
    /// Messages written to the capture.
    pub captured: Option<u64>,
    /// Reads that the network card's hardware stamped.
    pub hardware_stamps: u64,
    /// Whether packets came by a queue that can be polled.
    pub napi: Option<u32>,
    /// What the thread went through.
    pub usage: Option<sched::Usage>,
}

impl<H: Handler> Engine<H> {
    /// Prepares everything; nothing is connected yet.
    ///
    /// # Errors
    /// What in the configuration cannot be.
    pub fn new(config: Config, handler: H) -> Result<(Self, Watch), ConfigError> {
        check_symbols(&config.symbols)?;
        let names: Vec<_> = config.symbols.iter().map(String::as_str).collect();
        let connections = config.venue.connections(&names, config.wanted)?;
        let dialler = Dialler {
            address: config.stream_address(),
            tls: tls::client_config(config.roots.clone())?,
            record_path: config.record_path,
        };
        let roots = tls::certificates(&config.roots)?;
        let system = |what| move |source| ConfigError::System { what, source };
        let wake = Arc::new(Wake::new().map_err(system("eventfd"))?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|e| system("epoll_create")(e.into()))?;
        let ring_end = epoll::EventData::new_u64(u64::MAX);
        epoll::add(&epoll, &*wake, ring_end, epoll::EventFlags::IN)
            .map_err(|e| system("epoll_ctl")(e.into()))?;
        let (answer, answers) = channel();
        let (notice, notices) = channel();
        let (recorder, drain) = ring(config.ring);
        let clock = HotClock::start(&config.cpus);
        let watch = Watch { drain, rate: clock.rate(), clock: clock.description(), notices };
        let mut books =
            Books::new(config.venue, &config.symbols, handler, recorder, notice.clone(), clock);
        books.tape =
            config.capture.as_deref().map(capture).transpose().map_err(system("capture"))?;
        let routes = Routes::new(
            &connections,
            config.renew_after,
            config.silence,
            config.venue.keepalive(),
            books.clock.rate(),
        );
        let keeper = Keeper::start(Means {
            venue: config.venue,
            rest: Rest::new(&config.rest_address(), &roots),
            dialler,
            connections,
            symbols: config.symbols.clone(),
            answers: answer,
            notices: notice,
            wake: Arc::clone(&wake),
        });
        Ok((Self { config, books, routes, answers, keeper, wake, epoll }, watch))
    }

    /// Connects and works until `stop` is set. To be called on a thread of its own, which is placed
    /// as the configuration says.
    ///
    /// # Errors
    /// What the system refuses: placing the thread, epoll, a capture that could not be written.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Summary, ConfigError> {
        place(&self.config)?;
        let segment = match self.config.publish {
            true => Some(live::Segment::create(1, SPANS).map_err(|error| ConfigError::System {
                what: "publishing spans",
                source: io::Error::other(error),
            })?),
            false => None,
        };
        self.books.live = segment.as_ref().and_then(live::Segment::recorder);
        let before = sched::usage().ok();
        (0..self.routes.len()).for_each(|number| self.keeper.connect(number, 0));
        match self.config.mode {
            Mode::RecvSpin => self.spin(stop),
            mode => self.poll(stop, mode)?,
        }
        self.finish(before)
    }

    /// Reads every socket again and again.
    fn spin(&mut self, stop: &AtomicBool) {
        let mut rounds = 0u32;
        while !stop.load(Ordering::Relaxed) {
            let mut is_idle = true;
            for slot in 0..self.routes.slots() {
                is_idle &= !self.pump(slot, None);
            }
            rounds = rounds.wrapping_add(1);
            if is_idle || rounds % ROUNDS == 0 {
                self.look_after(rounds % ROUNDS == 0);
            }
        }
    }

    /// Lets the kernel say which sockets have something.
    fn poll(&mut self, stop: &AtomicBool, mode: Mode) -> Result<(), ConfigError> {
        let patience = match mode.spins() {
            true => Timespec { tv_sec: 0, tv_nsec: 0 },
            false => LOOK,
        };
        let mut rounds = 0u32;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        while !stop.load(Ordering::Relaxed) {
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&patience),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return Err(ConfigError::System { what: "epoll_wait", source: error.into() });
                }
            }
            let woke = (!mode.spins()).then(|| self.books.clock.now());
            for event in &events {
                let slot = event.data.u64();
                match usize::try_from(slot) {
                    Ok(slot) if slot < self.routes.slots() => drop(self.pump(slot, woke)),
                    _ => self.wake.hear(),
                }
            }
            rounds = rounds.wrapping_add(1);
            if !mode.spins() || events.is_empty() || rounds % ROUNDS == 0 {
                self.look_after(!mode.spins() || rounds % ROUNDS == 0);
            }
        }
        Ok(())
    }

    /// Reads one socket. Whether there was anything.
    #[inline]
    fn pump(&mut self, slot: usize, woke: Option<u64>) -> bool {
        let role = self.routes.role(slot);
        let Some(link) = self.routes.link(slot) else { return false };
        self.books.from(slot / 2, role);
        match link.pump(woke, &mut self.books) {
            Ok(read) => read,
            Err(error) => {
                self.lost(slot, &error);
                true
            }
        }
    }

    /// What no message brings about. `thorough` is for what need not be looked at in every idle
    /// moment.
    fn look_after(&mut self, thorough: bool) {
        let now = self.books.clock.now();
        self.books.clock.keep(now);
        while let Ok(answer) = self.answers.try_recv() {
            match answer {
                Answer::Connected(route, dialled) => self.connected(route, *dialled),
                Answer::Snapshot(snapshot) => self.books.fetched(&snapshot),
            }
        }
        while let Some(number) = self.books.wanting.pop() {
            self.want(number);
        }
        if thorough {
            self.books.tidy();
            if let Some(tape) = &mut self.books.tape {
                tape.hand_over();
            }
            (0..self.routes.slots()).for_each(|slot| self.serve(slot, now));
        }
    }

    /// A book needs a snapshot: one to be asked for, or a new subscription.
    #[cold]
    fn want(&mut self, number: usize) {
        match self.config.venue.rule() {
            Rule::Bridge => {
                let failures = self.books.tries[number];
                self.books.tries[number] += 1;
                self.keeper.snapshot(number, failures);
            }
            Rule::InStream => {
                self.books.is_asked[number] = false;
                let Some(route) = self.books.source[number] else { return };
                (route * 2..route * 2 + 2)
                    .for_each(|slot| self.lost(slot, &LinkError::Resubscribe));
            }
        }
    }

    #[cold]
    fn connected(&mut self, route: usize, dialled: Dialled) {
        let now = self.books.clock.now();
        let (mut link, rest) = Link::new(dialled, now);
        if let Some(time) = self.config.busy_poll {
            if let Err(error) = link.socket().busy_poll(time) {
                let what = "busy polling".to_owned();
                let again = Duration::ZERO;
                self.books.notify(Notice::Failed { what, why: error.to_string(), again });
            }
        }
        let (path, tls) = (self.routes.path(route).to_owned(), link.negotiated());
        self.books.notify(Notice::Connected { path, tls });
        self.books.expect(route);
        self.books.from(route, self.routes.next_role(route));
        let begun = link.begin(&rest, &mut self.books);
        let (slot, superfluous) = self.routes.connected(route, link, now);
        superfluous.into_iter().for_each(Link::close);
        let watched = self.routes.link(slot).map(|link| {
            let data = epoll::EventData::new_u64(slot as u64);
            epoll::add(&self.epoll, link.socket(), data, epoll::EventFlags::IN)
        });
        match (begun, watched) {
            (Err(error), _) => self.lost(slot, &error),
            (_, Some(Err(error))) => self.lost(slot, &LinkError::Socket(error.into())),
            _ => {}
        }
    }

    #[cold]
    fn lost(&mut self, slot: usize, why: &LinkError) {
        let now = self.books.clock.now();
        let route = slot / 2;
        let (link, again) = self.routes.take(slot, now);
        let Some(link) = link else { return };
        let path = self.routes.path(route).to_owned();
        self.books.notify(Notice::Lost { path, why: why.to_string() });
        if let LinkError::Closed { .. } | LinkError::Protocol(_) = why {
            link.close();
        }
        match again {
            Some(failures) => {
                self.books.interrupted(route);
                self.keeper.connect(route, failures);
            }
            None => self.books.halved(route),
        }
    }

    /// Does for a link what it needs now.
    fn serve(&mut self, slot: usize, now: u64) {
        let books = &self.books;
        let need = self.routes.need(slot, now, || books.is_covered(slot / 2));
        let Some(link) = self.routes.link(slot) else { return };
        let done = match need {
            None if link.has_unsent() => link.flush(),
            None => Ok(()),
            Some(Need::Ping) => link.ping(),
            Some(Need::Keepalive) => match self.config.venue.keepalive() {
                Some(keepalive) => link.say(keepalive.text),
                None => Ok(()),
            },
            Some(Need::Dead) => Err(LinkError::Silent(self.config.silence.as_secs())),
            Some(Need::Successor(failures)) => {
                self.keeper.connect(slot / 2, failures);
                Ok(())
            }
            Some(Need::Retire) => {
                self.routes.retire(slot).into_iter().for_each(Link::close);
                Ok(())
            }
        };
        if let Err(error) = done {
            self.lost(slot, &error);
        }
    }

    fn finish(mut self, before: Option<sched::Usage>) -> Result<Summary, ConfigError> {
        let now = self.books.clock.now();
        for slot in 0..self.routes.slots() {
            self.routes.take(slot, now).0.into_iter().for_each(Link::close);
        }
        let usage = before.and_then(|before| Some(sched::usage().ok()?.since(&before)));
        let captured = self.books.tape.take().map(Tape::finish).transpose();
        let captured = captured
            .map_err(|source| ConfigError::System { what: "writing the capture", source })?;
        Ok(Summary {
            unused: self.books.unused,
            connections: self.routes.opened,
            renewals: self.routes.renewals,
            captured,
            hardware_stamps: self.routes.hardware_stamps,
            napi: self.routes.napi,
            usage,
            markets: self.books.markets,
        })
    }
}

fn check_symbols(symbols: &[String]) -> Result<(), ConfigError> {
    if symbols.is_empty() {
        return Err(ConfigError::None);
    }
    let twice = symbols.iter().enumerate().find(|(at, symbol)| {
        symbols[..*at].iter().any(|earlier| earlier.eq_ignore_ascii_case(symbol))
    });
    twice.map_or(Ok(()), |(_, symbol)| Err(ConfigError::Twice(symbol.clone())))
}

/// Puts the calling thread where the configuration wants it.
fn place(config: &Config) -> Result<(), ConfigError> {
    let refused = |what| {
        move |error: sched::SchedError| ConfigError::System {
            what,
            source: io::Error::other(error),
        }
    };
    if !config.cpus.is_empty() {
        sched::place(0, &config.cpus).map_err(refused("placing the hot thread"))?;
    }
    if let Some(priority) = config.fifo {
        let class = sched::Class::Fifo { priority };
        sched::set_class(0, class).map_err(refused("SCHED_FIFO for the hot thread"))?;
    }
    Ok(())
}

fn capture(path: &std::path::Path) -> io::Result<Tape> {
    Tape::start(recording::Writer::create(path).map_err(io::Error::other)?)
}
