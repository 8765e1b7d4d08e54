//! S2 to S5 in memory: the engine's parts beside rustls, tungstenite, serde_json and `BTreeMap`.
//!
//! Each message is one record, sealed by a TLS server in memory before the clock runs, and one read.
//! A message's time begins before its read, which is a copy out of memory for both.

use std::io::Read;
use std::sync::Arc;

use anyhow::{bail, ensure};
use quietcore_feed::engine::Config;
use quietcore_feed::engine::clock::HotClock;
use quietcore_feed::market::{Levels, Says};
use quietcore_feed::stages::{Drain, Kind, Laps, Passed, Recorder, ring};
use quietcore_feed::sync::{Market, MarketConfig, State};
use quietcore_feed::tls::{RecordPath, Tls};
use quietcore_feed::venues::Venue;
use quietcore_feed::venues::binance_usdm::BinanceUsdm;
use quietcore_feed::websocket::{Decoder, Incoming, Limits, Opcode, Utf8, encode};
use quietcore_measure::{CpuSet, Distribution, Hist, HistConfig};
use quietcore_sys::clock::KernelClock;
use quietcore_sys::tsc::{Rate, ticks};
use rustls::{ClientConnection, StreamOwned};
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

use crate::market::Sample;
use crate::pipe::{Ends, Pipe, name};
use crate::trees::Plain;
use crate::turns::{Row, Target};

/// Messages before the other side's turn.
const TURN: usize = 250;

/// Ours.
#[derive(Debug)]
pub struct Ours {
    pipe: Pipe,
    tls: Tls,
    decoder: Decoder,
    levels: Levels,
    /// Its book.
    pub market: Market,
    quotes: u64,
    trades: u64,
    clock: HotClock,
    /// The stamp that the kernel would have made of what is on the wire.
    stamp_ns: u64,
    recorder: Recorder,
    _drain: Drain,
}

impl Ours {
    /// Connected.
    pub fn new(ends: &Ends) -> anyhow::Result<Self> {
        let mut pipe = ends.pipe()?;
        let tls = Tls::connect(&mut pipe, name()?, Arc::clone(&ends.client), RecordPath::Own)?;
        let decoder = Decoder::new(Limits { utf8: Utf8::Trust, ..Limits::default() });
        let market = Market::new(BinanceUsdm.rule(), MarketConfig::default());
        let levels = Levels::with_room(4_096);
        let (recorder, _drain) = ring(Config::RING);
        Ok(Self {
            pipe,
            tls,
            decoder,
            levels,
            market,
            quotes: 0,
            trades: 0,
            clock: HotClock::start(&CpuSet::default()),
            stamp_ns: 0,
            recorder,
            _drain,
        })
    }

    /// Begins anew with the whole book.
    pub fn load(&mut self, sample: &Sample) -> anyhow::Result<()> {
        self.market.interrupt();
        self.market.forget_quotes();
        match BinanceUsdm.scan(&sample.snapshot, &mut self.levels)?.says {
            Says::Depth(depth) => drop(self.market.on_depth(&depth, &self.levels)),
            says => bail!("a snapshot is read as {says:?}"),
        }
        Ok(())
    }

    /// Puts these messages on the wire.
    pub fn seal(&mut self, frames: &[Vec<u8>]) -> anyhow::Result<()> {
        frames.iter().try_for_each(|frame| self.pipe.seal(frame))?;
        self.clock.keep(self.clock.now());
        self.stamp_ns = KernelClock::Realtime.now();
        Ok(())
    }

    /// Reads until a message has come and is in the book. With `STAMPED`, its stages are timed and
    /// recorded as the engine does it.
    #[inline]
    pub fn take<const STAMPED: bool>(&mut self) -> anyhow::Result<()> {
        let mut messages = 0;
        while messages == 0 {
            let count = self.pipe.read(self.tls.space())?;
            self.tls.filled(count);
            let mut laps = STAMPED.then(|| {
                let now = self.clock.now();
                Laps::read(now, self.clock.since(Some(self.stamp_ns), now), 0)
            });
            while let Some(mut plain) = self.tls.next()? {
                if let Some(laps) = &mut laps {
                    laps.tls(self.clock.now(), self.decoder.is_inside());
                }
                while !plain.is_empty() {
                    let incoming = self.decoder.next(&mut plain)?;
                    if let Some(laps) = &mut laps {
                        laps.websocket(self.clock.now());
                    }
                    let text = match incoming {
                        None => break,
                        Some(Incoming::Text(text)) => text,
                        Some(other) => bail!("{other:?} was not sent"),
                    };
                    let says = BinanceUsdm.scan(text, &mut self.levels)?.says;
                    if let Some(laps) = &mut laps {
                        laps.json(self.clock.now());
                    }
                    let kind = match says {
                        Says::Depth(depth) => {
                            let _ = self.market.on_depth(&depth, &self.levels);
                            Kind::Depth
                        }
                        Says::Quote(quote) => {
                            self.market.on_quote(&quote);
                            self.quotes += 1;
                            Kind::Quote
                        }
                        Says::Trade(_) => {
                            self.trades += 1;
                            Kind::Trade
                        }
                        _ => Kind::Other,
                    };
                    if let Some(laps) = &mut laps {
                        let way = laps.book(self.clock.now());
                        self.recorder.record(&Passed { kind, way });
                    }
                    messages += 1;
                }
            }
        }
        ensure!(messages == 1, "{messages} messages came at once");
        Ok(())
    }
}

/// The peer.
struct Peer {
    socket: WebSocket<StreamOwned<ClientConnection, Pipe>>,
    plain: Plain,
}

impl Peer {
    fn new(ends: &Ends) -> anyhow::Result<Self> {
        let mut pipe = ends.pipe()?;
        let mut connection = ClientConnection::new(Arc::clone(&ends.client), name()?)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut pipe)?;
        }
        let stream = StreamOwned::new(connection, pipe);
        let socket = WebSocket::from_raw_socket(stream, Role::Client, None);
        Ok(Self { socket, plain: Plain::default() })
    }

    fn seal(&mut self, frames: &[Vec<u8>]) -> anyhow::Result<()> {
        let pipe = &mut self.socket.get_mut().sock;
        frames.iter().try_for_each(|frame| pipe.seal(frame))?;
        Ok(())
    }

    #[inline]
    fn take(&mut self) -> anyhow::Result<()> {
        match self.socket.read()? {
            Message::Text(text) => self.plain.take(text.as_str()).map(drop),
            other => bail!("{other:?} was not sent"),
        }
    }
}

/// The messages as frames.
pub fn frames(sample: &Sample) -> Vec<Vec<u8>> {
    let framed = |text: &Vec<u8>| {
        let mut frame = Vec::with_capacity(text.len() + 16);
        encode(Opcode::Text, text, None, &mut frame);
        frame
    };
    sample.messages.iter().map(framed).collect()
}

/// Rows of three percentiles, and both distributions. `passes` over all messages.
pub fn rows(
    ends: &Ends,
    sample: &Sample,
    rate: Rate,
    passes: usize,
) -> anyhow::Result<(Vec<Row>, Vec<Distribution>)> {
    let frames = frames(sample);
    let (mut ours, mut peer) = (Ours::new(ends)?, Peer::new(ends)?);
    let mut all = [(); 2].map(|()| Hist::new(HistConfig::default()));
    let quantiles = [0.5, 0.99, 0.999];
    let mut found = [const { [const { Vec::new() }; 2] }; 3];
    // The first pass is not counted.
    for pass in 0..=passes {
        let hists = pass_over(&mut ours, &mut peer, sample, &frames, rate)?;
        check(&ours, &peer)?;
        if pass == 0 {
            continue;
        }
        for (q, found) in quantiles.iter().zip(&mut found) {
            for (hist, found) in hists.iter().zip(found) {
                found.push(hist.value_at(*q).unwrap_or(0) as f64);
            }
        }
        all.iter_mut().zip(&hists).try_for_each(|(all, hist)| all.merge(hist))?;
    }
    let peer = "tungstenite stack";
    let named = ["S2 to S5, P50", "S2 to S5, P99", "S2 to S5, P99.9"];
    let targets = [Target::Ratio(0.20), Target::None, Target::Ratio(0.30)];
    let rows = named.iter().zip(&found).zip(targets);
    let rows =
        rows.map(|((what, [ours, theirs]), target)| Row::of(*what, ours, peer, theirs, target));
    let sides = ["quietcore", peer];
    let of = |(hist, side): (&Hist, &str)| {
        Distribution::of("feed_bench_whole", "ns", &[("stack", side)], hist)
    };
    Ok((rows.collect(), all.iter().zip(sides).map(of).collect()))
}

fn pass_over(
    ours: &mut Ours,
    peer: &mut Peer,
    sample: &Sample,
    frames: &[Vec<u8>],
    rate: Rate,
) -> anyhow::Result<[Hist; 2]> {
    ours.load(sample)?;
    peer.plain.load(&sample.snapshot)?;
    let mut hists = [(); 2].map(|()| Hist::new(HistConfig::default()));
    let mut took = Vec::with_capacity(TURN);
    for (turn, frames) in frames.chunks(TURN).enumerate() {
        for place in 0..2 {
            let side = (place + turn) % 2;
            took.clear();
            if side == 0 {
                ours.seal(frames)?;
                for _ in frames {
                    let start = ticks();
                    ours.take::<false>()?;
                    took.push(ticks().saturating_sub(start));
                }
            } else {
                peer.seal(frames)?;
                for _ in frames {
                    let start = ticks();
                    peer.take()?;
                    took.push(ticks().saturating_sub(start));
                }
            }
            took.iter().for_each(|ticks| hists[side].record(rate.ns(*ticks)));
        }
        // What the engine does in an idle moment.
        ours.market.tidy();
    }
    Ok(hists)
}

/// Both have the same book and have seen the same.
fn check(ours: &Ours, peer: &Peer) -> anyhow::Result<()> {
    let Some(book) = ours.market.book() else {
        bail!("our book is {:?} at the end, not {:?}", ours.market.state(), State::Live);
    };
    ensure!(peer.plain.trees.is(book), "the books differ after the same messages");
    let seen = [ours.quotes, ours.trades];
    let theirs = [peer.plain.quotes, peer.plain.trades];
    ensure!(seen == theirs, "quotes and trades: ours {seen:?}, the peer's {theirs:?}");
    let wrong = ours.market.counters().bbo_mismatch;
    ensure!(wrong == 0, "{wrong} tops of our book are not what the venue quoted");
    Ok(())
}
