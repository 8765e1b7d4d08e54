//! What Binance's streams and its `depth` request say.
//!
//! A message is an event, `{"e":"depthUpdate",…}`, alone or as `{"stream":"…","data":{…}}`; a REST
//! snapshot, alone or as the data of a stream, as recordings have it; or an answer. Keys come in
//! any order, unknown ones are skipped: the venue adds some without notice (`ps`, `st`, `nq`, `ap`
//! in 2026). Where a key comes twice the last one counts, but a message that calls itself two
//! different events is refused.

use super::usual;
use crate::fixed::Fixed;
use crate::market::{Depth, Level, Levels, Mark, Message, Quote, Says, Side, Trade};
use crate::scan::{Fault, ScanError, Scanner, text};

/// Every key that is read, for those that are written with escapes.
const KEYS: &[&[u8]] = &[
    b"stream",
    b"data",
    b"e",
    b"E",
    b"T",
    b"s",
    b"U",
    b"u",
    b"pu",
    b"b",
    b"a",
    b"B",
    b"A",
    b"p",
    b"q",
    b"t",
    b"m",
    b"i",
    b"r",
    b"lastUpdateId",
    b"bids",
    b"asks",
    b"result",
    b"error",
    b"id",
    b"code",
    b"msg",
];

const OTHER: Message = Message { symbol: b"", says: Says::Other };

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Depth,
    Quote,
    AggTrade,
    Trade,
    Mark,
    /// An event that nobody here needs.
    Unused,
    Snapshot,
    Wrapper,
    Answer,
    Unknown,
}

impl Kind {
    /// By the event's name.
    #[inline]
    fn of(event: &[u8]) -> Self {
        match event {
            b"depthUpdate" => Self::Depth,
            b"bookTicker" => Self::Quote,
            b"aggTrade" => Self::AggTrade,
            b"trade" => Self::Trade,
            b"markPriceUpdate" => Self::Mark,
            _ => match text::plain_of(event, EVENTS) {
                plain if plain == event => Self::Unused,
                plain => Self::of(plain),
            },
        }
    }
}

/// The events that are read, for those that are written with escapes.
const EVENTS: &[&[u8]] =
    &[b"depthUpdate", b"bookTicker", b"aggTrade", b"trade", b"markPriceUpdate"];

/// Reads a message.
#[inline]
pub(super) fn scan<'a>(text: &'a [u8], levels: &mut Levels) -> Result<Message<'a>, ScanError> {
    levels.clear();
    let mut scanner = Scanner::new(text);
    if let Some((stream, kind)) = usual::beginning(&mut scanner) {
        let is_end = |scanner: &mut Scanner<'a>| stream.is_none() || scanner.take_text(b"}");
        if kind == Kind::Quote {
            let mut scanner = scanner;
            let quote = usual::quote(&mut scanner).filter(|_| is_end(&mut scanner));
            if let (Some((symbol, quote)), Ok(())) = (quote, scanner.end()) {
                return Ok(Message { symbol, says: Says::Quote(quote) });
            }
        }
        let key = scanner.next_key(KEYS)?;
        let message = event(kind, key, Body { scanner: &mut scanner, stream, levels })?;
        // Something else behind the data is rare: read the message again, in any order.
        if is_end(&mut scanner) {
            return scanner.end().map(|()| message);
        }
    }
    let mut scanner = Scanner::new(text);
    let message = value(&mut scanner, None, levels)?;
    scanner.end()?;
    Ok(message)
}

/// A message, or the data of a stream.
#[inline]
fn value<'a>(
    scanner: &mut Scanner<'a>,
    stream: Option<&'a [u8]>,
    levels: &mut Levels,
) -> Result<Message<'a>, ScanError> {
    if scanner.peek()? != b'{' {
        scanner.skip()?;
        return Ok(OTHER);
    }
    let start = *scanner;
    let kind = survey(scanner, stream.is_none())?;
    *scanner = start;
    if kind == Kind::Wrapper {
        return wrapper(scanner, levels);
    }
    let key = scanner.first_key(KEYS)?;
    event(kind, key, Body { scanner, stream, levels })
}

/// What an object is, by its keys: an event or a stream's by which of the two comes first. Only
/// the whole message can be a stream's.
fn survey(scanner: &mut Scanner<'_>, is_whole: bool) -> Result<Kind, ScanError> {
    let mut kind = Kind::Unknown;
    let mut key = scanner.first_key(KEYS)?;
    while let Some(name) = key {
        match name {
            b"e" if scanner.peek()? == b'"' => return scanner.string().map(Kind::of),
            b"stream" if is_whole => return Ok(Kind::Wrapper),
            b"lastUpdateId" => kind = Kind::Snapshot,
            b"result" | b"error" | b"code" if kind == Kind::Unknown => kind = Kind::Answer,
            _ => {}
        }
        scanner.skip()?;
        key = scanner.next_key(KEYS)?;
    }
    Ok(kind)
}

/// `{"stream":"btcusdt@depth@100ms","data":{…}}`
#[inline]
fn wrapper<'a>(scanner: &mut Scanner<'a>, levels: &mut Levels) -> Result<Message<'a>, ScanError> {
    let (mut stream, mut data, mut message) = (None, None, None);
    let mut key = scanner.first_key(KEYS)?;
    while let Some(name) = key {
        match name {
            b"stream" => (stream, message) = (Some(scanner.string()?), None),
            b"data" => {
                data = Some(*scanner);
                match stream {
                    Some(_) => message = Some(value(scanner, stream, levels)?),
                    None => scanner.skip()?,
                }
            }
            _ => scanner.skip()?,
        }
        key = scanner.next_key(KEYS)?;
    }
    match (message, data) {
        (Some(message), _) => Ok(message),
        // The data came before its stream's name.
        (None, Some(mut data)) => value(&mut data, Some(stream.unwrap_or_default()), levels),
        (None, None) => Ok(OTHER),
    }
}

/// An object that is being read: its keys but the first are still to come.
struct Body<'s, 'a> {
    scanner: &'s mut Scanner<'a>,
    stream: Option<&'a [u8]>,
    levels: &'s mut Levels,
}

fn event<'a>(
    kind: Kind,
    key: Option<&'a [u8]>,
    mut body: Body<'_, 'a>,
) -> Result<Message<'a>, ScanError> {
    match kind {
        Kind::Depth if body.is_whole_book() => body.depth(key),
        Kind::Quote => body.quote(key),
        Kind::AggTrade | Kind::Trade => body.trade(kind, key),
        Kind::Mark => body.mark(key),
        Kind::Snapshot => body.snapshot(key),
        Kind::Answer => body.answer(key),
        Kind::Depth | Kind::Unused | Kind::Wrapper | Kind::Unknown => body.unused(kind, key),
    }
}

/// Of `depth` and `depth@100ms`, but not of `depth5`.
#[inline]
fn is_depth(kind: &[u8]) -> bool {
    matches!(kind.strip_prefix(b"depth"), Some([] | [b'@', ..]))
}

#[cold]
fn is_depth_escaped(stream: &[u8]) -> bool {
    let mut buffer = [0; text::BUFFER];
    // One that is longer than that is none of the venue's.
    let Some(stream) = text::plain(stream, &mut buffer) else { return false };
    stream
        .strip_prefix(text::until(stream, '@'))
        .and_then(|kind| kind.get(1..))
        .is_none_or(is_depth)
}

impl<'a> Body<'_, 'a> {
    /// Not one of the streams that also call themselves `depthUpdate` and are something else: the
    /// first 5, 10 or 20 levels (`@depth5`), the orders of retail price improvement (`@rpiDepth`).
    #[inline]
    fn is_whole_book(&self) -> bool {
        let Some(stream) = self.stream else { return true };
        let at = stream.iter().position(|byte| matches!(byte, b'@' | b'\\'));
        match &stream[at.unwrap_or(stream.len())..] {
            [] => true,
            [b'@', kind @ ..] if is_depth(kind) => true,
            _ => stream.contains(&b'\\') && is_depth_escaped(stream),
        }
    }

    /// The event's name came again.
    #[cold]
    fn again(&mut self, kind: Kind) -> Result<(), ScanError> {
        let place = *self.scanner;
        match Kind::of(self.scanner.string()?) == kind {
            true => Ok(()),
            false => Err(place.fault(Fault::Contradiction)),
        }
    }

    /// The end of an object of whose instrument the message says this much.
    #[inline]
    fn message(&self, symbol: Option<&'a [u8]>, says: Says<'a>) -> Result<Message<'a>, ScanError> {
        let symbol = match (symbol, self.stream) {
            (Some(symbol), _) => symbol,
            (None, Some(stream)) if !stream.starts_with(b"!") => text::until(stream, '@'),
            (None, _) => return Err(self.missing("s")),
        };
        Ok(Message { symbol, says })
    }

    #[cold]
    fn missing(&self, name: &'static str) -> ScanError {
        self.scanner.fault(Fault::Missing(name))
    }

    /// "Diff. Book Depth Streams"
    #[inline]
    fn depth(&mut self, mut key: Option<&'a [u8]>) -> Result<Message<'a>, ScanError> {
        let (mut symbol, mut first, mut last, mut previous) = (None, None, None, None);
        let (mut bids, mut asks, mut time_ms) = (false, false, 0);
        while let Some(name) = key {
            match name {
                [b's'] => symbol = Some(self.scanner.string()?),
                [b'T'] => time_ms = self.scanner.number()?,
                [b'U'] => first = Some(self.scanner.number()?),
                [b'u'] => last = Some(self.scanner.number()?),
                [b'p', b'u'] => previous = Some(self.scanner.number()?),
                [b'b'] => {
                    self.scanner.levels(&mut self.levels.bids)?;
                    bids = true;
                }
                [b'a'] => {
                    self.scanner.levels(&mut self.levels.asks)?;
                    asks = true;
                }
                [b'e'] => self.again(Kind::Depth)?,
                _ => self.scanner.skip()?,
            }
            key = self.scanner.next_key(KEYS)?;
        }
        let first = first.ok_or_else(|| self.missing("U"))?;
        let last = last.ok_or_else(|| self.missing("u"))?;
        let previous = Some(previous.ok_or_else(|| self.missing("pu"))?);
        if !bids || !asks {
            return Err(self.missing(if bids { "a" } else { "b" }));
        }
        let depth = Depth { is_snapshot: false, first, last, previous, checksum: None, time_ms };
        self.message(symbol, Says::Depth(depth))
    }

    /// "Individual Symbol Book Ticker Streams"
    #[inline]
    fn quote(&mut self, mut key: Option<&'a [u8]>) -> Result<Message<'a>, ScanError> {
        let (mut symbol, mut update, mut time_ms) = (None, None, 0);
        let [mut bid, mut bid_quantity, mut ask, mut ask_quantity] = [None; 4];
        while let Some(name) = key {
            match name {
                [b's'] => symbol = Some(self.scanner.string()?),
                [b'T'] => time_ms = self.scanner.number()?,
                [b'u'] => update = Some(self.scanner.number()?),
                [b'b'] => bid = Some(self.scanner.amount()?),
                [b'B'] => bid_quantity = Some(self.scanner.amount()?),
                [b'a'] => ask = Some(self.scanner.amount()?),
                [b'A'] => ask_quantity = Some(self.scanner.amount()?),
                [b'e'] => self.again(Kind::Quote)?,
                _ => self.scanner.skip()?,
            }
            key = self.scanner.next_key(KEYS)?;
        }
        let level = |price: Option<Fixed>, quantity: Option<Fixed>, names: [&'static str; 2]| {
            let price = price.ok_or_else(|| self.missing(names[0]))?;
            let quantity = quantity.ok_or_else(|| self.missing(names[1]))?;
            Ok(Level { price, quantity })
        };
        let quote = Quote {
            update: update.ok_or_else(|| self.missing("u"))?,
            bid: level(bid, bid_quantity, ["b", "B"])?,
            ask: level(ask, ask_quantity, ["a", "A"])?,
            time_ms,
        };
        self.message(symbol, Says::Quote(quote))
    }

    /// "Aggregate Trade Streams", and the single trades that are not documented: they differ in
    /// the key of the number only.
    #[inline]
    fn trade(&mut self, kind: Kind, mut key: Option<&'a [u8]>) -> Result<Message<'a>, ScanError> {
        let number: (u8, &str) = if kind == Kind::AggTrade { (b'a', "a") } else { (b't', "t") };
        let (mut symbol, mut id, mut price, mut quantity) = (None, None, None, None);
        let (mut time_ms, mut buyer_is_maker) = (None, None);
        while let Some(name) = key {
            match name {
                [b's'] => symbol = Some(self.scanner.string()?),
                [b'T'] => time_ms = Some(self.scanner.number()?),
                [b'p'] => price = Some(self.scanner.amount()?),
                [b'q'] => quantity = Some(self.scanner.amount()?),
                [b'm'] => buyer_is_maker = Some(self.scanner.boolean()?),
                [b'e'] => self.again(kind)?,
                [name] if *name == number.0 => id = Some(self.scanner.number()?),
                _ => self.scanner.skip()?,
            }
            key = self.scanner.next_key(KEYS)?;
        }
        let buyer_is_maker = buyer_is_maker.ok_or_else(|| self.missing("m"))?;
        let trade = Trade {
            id: id.ok_or_else(|| self.missing(number.1))?,
            price: price.ok_or_else(|| self.missing("p"))?,
            quantity: quantity.ok_or_else(|| self.missing("q"))?,
            taker: if buyer_is_maker { Side::Ask } else { Side::Bid },
            time_ms: time_ms.ok_or_else(|| self.missing("T"))?,
        };
        self.message(symbol, Says::Trade(trade))
    }

    /// "Mark Price Stream": `T` is when funding is next, `E` is when this is. Contracts that expire
    /// have an empty funding rate.
    #[inline]
    fn mark(&mut self, mut key: Option<&'a [u8]>) -> Result<Message<'a>, ScanError> {
        let (mut symbol, mut price, mut mark) = (None, None, Mark::default());
        while let Some(name) = key {
            match name {
                [b's'] => symbol = Some(self.scanner.string()?),
                [b'E'] => mark.time_ms = self.scanner.number()?,
                [b'p'] => price = Some(self.scanner.amount()?),
                [b'i'] => mark.index = self.fixed_or_nothing()?,
                [b'r'] => mark.funding = self.fixed_or_nothing()?,
                [b'e'] => self.again(Kind::Mark)?,
                _ => self.scanner.skip()?,
            }
            key = self.scanner.next_key(KEYS)?;
        }
        mark.price = price.ok_or_else(|| self.missing("p"))?;
        self.message(symbol, Says::Mark(mark))
    }

    #[inline]
    fn fixed_or_nothing(&mut self) -> Result<Fixed, ScanError> {
        let mut look = *self.scanner;
        if look.peek()? == b'"' && look.string()?.is_empty() {
            *self.scanner = look;
            return Ok(Fixed::ZERO);
        }
        self.scanner.fixed()
    }

    /// "Order Book". It does not say of which instrument it is.
    fn snapshot(&mut self, mut key: Option<&'a [u8]>) -> Result<Message<'a>, ScanError> {
        let (mut last, mut time_ms, mut symbol) = (None, 0, None);
        let (mut bids, mut asks) = (false, false);
        while let Some(name) = key {
            match name {
                b"lastUpdateId" => last = Some(self.scanner.number()?),
                [b'T'] => time_ms = self.scanner.number()?,
                [b's'] => symbol = Some(self.scanner.string()?),
                b"bids" => {
                    self.scanner.levels(&mut self.levels.bids)?;
                    bids = true;
                }
                b"asks" => {
                    self.scanner.levels(&mut self.levels.asks)?;
                    asks = true;
                }
                _ => self.scanner.skip()?,
            }
            key = self.scanner.next_key(KEYS)?;
        }
        let last = last.ok_or_else(|| self.missing("lastUpdateId"))?;
        if !bids || !asks {
            return Err(self.missing(if bids { "asks" } else { "bids" }));
        }
        let stream = self.stream.map(|stream| text::until(stream, '@'));
        let symbol = symbol.or(stream).unwrap_or_default();
        let depth =
            Depth { is_snapshot: true, first: last, last, previous: None, checksum: None, time_ms };
        Ok(Message { symbol, says: Says::Depth(depth) })
    }

    /// `{"result":null,"id":1}`, `{"code":2,"msg":"…","id":1}` or `{"error":{"code":2,"msg":"…"},"id":1}`
    fn answer(&mut self, mut key: Option<&'a [u8]>) -> Result<Message<'a>, ScanError> {
        let (mut id, mut refused) = (None, None);
        while let Some(name) = key {
            match name {
                b"id" if self.scanner.peek()?.is_ascii_digit() => id = Some(self.scanner.number()?),
                b"msg" if self.scanner.peek()? == b'"' => refused = Some(self.scanner.string()?),
                b"code" => {
                    self.scanner.skip()?;
                    refused = refused.or(Some(b""));
                }
                b"error" if self.scanner.peek()? == b'{' => refused = Some(self.words()?),
                _ => self.scanner.skip()?,
            }
            key = self.scanner.next_key(KEYS)?;
        }
        let says = match (refused, id) {
            (Some(words), _) => Says::Refused(words),
            (None, Some(id)) => Says::Done(id),
            (None, None) => Says::Other,
        };
        Ok(Message { symbol: b"", says })
    }

    /// What an error says.
    fn words(&mut self) -> Result<&'a [u8], ScanError> {
        let mut words = &b""[..];
        let mut key = self.scanner.first_key(KEYS)?;
        while let Some(name) = key {
            match name {
                b"msg" if self.scanner.peek()? == b'"' => words = self.scanner.string()?,
                _ => self.scanner.skip()?,
            }
            key = self.scanner.next_key(KEYS)?;
        }
        Ok(words)
    }

    fn unused(&mut self, kind: Kind, mut key: Option<&'a [u8]>) -> Result<Message<'a>, ScanError> {
        while let Some(name) = key {
            match name {
                [b'e'] if matches!(kind, Kind::Depth | Kind::Unused) => self.again(kind)?,
                _ => self.scanner.skip()?,
            }
            key = self.scanner.next_key(KEYS)?;
        }
        Ok(OTHER)
    }
}
