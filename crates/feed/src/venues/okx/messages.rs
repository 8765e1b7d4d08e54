//! What OKX's public channels say.
//!
//! A message is `{"arg":{"channel":…,"instId":…},"action":…,"data":[{…}]}`, an event
//! (`{"event":"subscribe",…}`), or the text `pong`. Keys come in any order, unknown ones are
//! skipped. Where a key comes twice the last one counts, but a message that says twice for which
//! channel it is, and differently, is refused.

use crate::market::{Depth, Levels, Message, Quote, Says, Side, Trade};
use crate::scan::{Fault, ScanError, Scanner, text};

/// Every key that is read, for those that are written with escapes.
const KEYS: &[&[u8]] = &[
    b"arg",
    b"channel",
    b"instId",
    b"action",
    b"data",
    b"event",
    b"id",
    b"msg",
    b"asks",
    b"bids",
    b"ts",
    b"checksum",
    b"seqId",
    b"prevSeqId",
    b"px",
    b"sz",
    b"side",
    b"tradeId",
];

/// What a channel brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Books,
    Quotes,
    Trades,
    /// Something that nobody here needs. `tickers` too: its quotes do not say to which update of
    /// the book they belong.
    Unused,
}

impl Channel {
    fn of(name: &[u8]) -> Self {
        const CHANNELS: [(&[u8], Channel); 4] = [
            (b"books", Channel::Books),
            (b"bbo-tbt", Channel::Quotes),
            (b"trades", Channel::Trades),
            (b"trades-all", Channel::Trades),
        ];
        let known = CHANNELS.iter().find(|(known, _)| text::is(name, known));
        known.map_or(Self::Unused, |(_, channel)| *channel)
    }
}

/// Reads a message.
#[inline]
pub(super) fn scan<'a>(text: &'a [u8], levels: &mut Levels) -> Result<Message<'a>, ScanError> {
    levels.clear();
    let mut scanner = Scanner::new(text);
    if text == b"pong" {
        return Ok(Message { symbol: b"", says: Says::Other });
    }
    if scanner.peek()? != b'{' {
        scanner.skip()?;
        scanner.end()?;
        return Ok(Message { symbol: b"", says: Says::Other });
    }
    let mut push = Push::default();
    let mut key = scanner.first_key(KEYS)?;
    while let Some(name) = key {
        match name {
            b"arg" if scanner.peek()? == b'{' => push.arg(&mut scanner)?,
            b"action" => push.action = Some(scanner.string()?),
            b"data" => push.data(&mut scanner, levels)?,
            b"event" => push.event = Some(scanner.string()?),
            b"id" => push.id = number_of_request(&mut scanner)?,
            b"msg" if scanner.peek()? == b'"' => push.words = scanner.string()?,
            _ => scanner.skip()?,
        }
        key = scanner.next_key(KEYS)?;
    }
    let message = push.message(levels)?;
    scanner.end()?;
    Ok(message)
}

/// The number that we gave a request: it comes back as text.
fn number_of_request(scanner: &mut Scanner<'_>) -> Result<u64, ScanError> {
    let mut look = *scanner;
    let number = if look.peek()? == b'"' { look.quoted_number() } else { look.number() };
    match number {
        Ok(_) => *scanner = look,
        Err(_) => scanner.skip()?,
    }
    Ok(number.unwrap_or(0))
}

/// What was read of a message so far.
#[derive(Debug, Default)]
struct Push<'a> {
    channel: Option<Channel>,
    symbol: &'a [u8],
    action: Option<&'a [u8]>,
    /// Where the data is that came before its channel was known.
    later: Option<Scanner<'a>>,
    says: Option<Says<'a>>,
    event: Option<&'a [u8]>,
    id: u64,
    words: &'a [u8],
}

impl<'a> Push<'a> {
    fn arg(&mut self, scanner: &mut Scanner<'a>) -> Result<(), ScanError> {
        let place = *scanner;
        let mut channel = None;
        let mut key = scanner.first_key(KEYS)?;
        while let Some(name) = key {
            match name {
                b"channel" => channel = Some(Channel::of(scanner.string()?)),
                b"instId" => self.symbol = scanner.string()?,
                _ => scanner.skip()?,
            }
            key = scanner.next_key(KEYS)?;
        }
        if self.channel.is_some() && self.channel != channel {
            return Err(place.fault(Fault::Contradiction));
        }
        self.channel = channel;
        Ok(())
    }

    #[inline]
    fn data(&mut self, scanner: &mut Scanner<'a>, levels: &mut Levels) -> Result<(), ScanError> {
        (self.later, self.says) = (None, None);
        match self.channel {
            None => {
                self.later = Some(*scanner);
                scanner.skip()
            }
            Some(Channel::Unused) => scanner.skip(),
            Some(channel) => self.entries(channel, scanner, levels),
        }
    }

    /// The array of what the channel brings. It has one entry, except that older recordings have
    /// several trades in one: the last of them is given.
    #[inline]
    fn entries(
        &mut self,
        channel: Channel,
        scanner: &mut Scanner<'a>,
        levels: &mut Levels,
    ) -> Result<(), ScanError> {
        scanner.open(b'[', "an array of data")?;
        if scanner.take(b']')? {
            return Ok(());
        }
        loop {
            if self.says.is_some() && channel == Channel::Books {
                return Err(scanner.expected("one book in a message"));
            }
            self.says = Some(match channel {
                Channel::Trades => Says::Trade(trade(scanner)?),
                _ => book(channel, scanner, levels)?,
            });
            if scanner.take(b']')? {
                return Ok(());
            }
            scanner.open(b',', "a comma or the end of the data")?;
        }
    }

    fn message(mut self, levels: &mut Levels) -> Result<Message<'a>, ScanError> {
        if let Some(event) = self.event {
            let says = match event {
                _ if text::is(event, b"error") => Says::Refused(self.words),
                _ if text::is(event, b"subscribe") || text::is(event, b"unsubscribe") => {
                    Says::Done(self.id)
                }
                _ => Says::Other,
            };
            return Ok(Message { symbol: self.symbol, says });
        }
        if let (Some(mut place), Some(channel)) = (self.later, self.channel) {
            if channel != Channel::Unused {
                self.entries(channel, &mut place, levels)?;
            }
        }
        let mut says = self.says.unwrap_or(Says::Other);
        if let Says::Depth(depth) = &mut says {
            self.finish(depth)?;
        }
        Ok(Message { symbol: self.symbol, says })
    }

    /// What of a book its message says outside of it.
    fn finish(&self, depth: &mut Depth) -> Result<(), ScanError> {
        let missing = |name| ScanError { fault: Fault::Missing(name), at: 0 };
        match self.action {
            Some(action) if text::is(action, b"snapshot") => {
                (depth.is_snapshot, depth.previous) = (true, None);
                Ok(())
            }
            Some(action) if text::is(action, b"update") => {
                depth.previous.map(drop).ok_or_else(|| missing("prevSeqId"))
            }
            Some(_) => {
                Err(ScanError { fault: Fault::Expected("the action snapshot or update"), at: 0 })
            }
            None => Err(missing("action")),
        }
    }
}

/// "Order book channel": `books` and, of the same form, `bbo-tbt` with one level of each side.
#[inline]
fn book<'a>(
    channel: Channel,
    scanner: &mut Scanner<'a>,
    levels: &mut Levels,
) -> Result<Says<'a>, ScanError> {
    let (mut last, mut previous, mut checksum, mut time_ms) = (None, None, None, 0);
    let (mut bids, mut asks) = (false, false);
    let mut key = scanner.first_key(KEYS)?;
    while let Some(name) = key {
        match name {
            b"asks" => {
                scanner.levels(&mut levels.asks)?;
                asks = true;
            }
            b"bids" => {
                scanner.levels(&mut levels.bids)?;
                bids = true;
            }
            b"ts" => time_ms = scanner.quoted_number()?,
            b"seqId" => last = Some(scanner.number()?),
            b"prevSeqId" => previous = unless_minus_one(scanner)?,
            b"checksum" => checksum = checksum_of(scanner)?,
            _ => scanner.skip()?,
        }
        key = scanner.next_key(KEYS)?;
    }
    let missing = |name| scanner.fault(Fault::Missing(name));
    let last = last.ok_or_else(|| missing("seqId"))?;
    if !bids || !asks {
        return Err(missing(if bids { "asks" } else { "bids" }));
    }
    if channel == Channel::Quotes {
        let [bid, ask] = [&levels.bids, &levels.asks].map(|side| side.first().copied());
        let (bid, ask) = (bid.unwrap_or_default(), ask.unwrap_or_default());
        levels.clear();
        return Ok(Says::Quote(Quote { update: last, bid, ask, time_ms }));
    }
    // The venue numbers its messages, not the changes in them: each is one update.
    Ok(Says::Depth(Depth { is_snapshot: false, first: last, last, previous, checksum, time_ms }))
}

/// `prevSeqId` of a snapshot is -1: nothing came before.
#[inline]
fn unless_minus_one(scanner: &mut Scanner<'_>) -> Result<Option<u64>, ScanError> {
    if scanner.peek()? != b'-' {
        return scanner.number().map(Some);
    }
    let place = *scanner;
    match scanner.signed_number()? {
        -1 => Ok(None),
        _ => Err(place.expected("a sequence number or -1")),
    }
}

/// A signed CRC-32. Since 23 June 2026 the field is there and always 0 (OKX, "Order Book Channels
/// Checksum Field Deprecation"): then the message has none.
#[inline]
fn checksum_of(scanner: &mut Scanner<'_>) -> Result<Option<i32>, ScanError> {
    let place = *scanner;
    if scanner.peek()? == b'n' {
        scanner.skip()?;
        return Ok(None);
    }
    let checksum = i32::try_from(scanner.signed_number()?);
    let checksum = checksum.map_err(|_| place.fault(Fault::TooLarge))?;
    Ok(Some(checksum).filter(|checksum| *checksum != 0))
}

/// "Trades channel": `side` is the taker's.
fn trade(scanner: &mut Scanner<'_>) -> Result<Trade, ScanError> {
    let (mut id, mut price, mut quantity, mut taker, mut time_ms) = (None, None, None, None, None);
    let mut key = scanner.first_key(KEYS)?;
    while let Some(name) = key {
        match name {
            b"tradeId" => id = Some(scanner.quoted_number()?),
            b"px" => price = Some(scanner.amount()?),
            b"sz" => quantity = Some(scanner.amount()?),
            b"ts" => time_ms = Some(scanner.quoted_number()?),
            b"side" => taker = Some(side(scanner)?),
            _ => scanner.skip()?,
        }
        key = scanner.next_key(KEYS)?;
    }
    let missing = |name| scanner.fault(Fault::Missing(name));
    Ok(Trade {
        id: id.ok_or_else(|| missing("tradeId"))?,
        price: price.ok_or_else(|| missing("px"))?,
        quantity: quantity.ok_or_else(|| missing("sz"))?,
        taker: taker.ok_or_else(|| missing("side"))?,
        time_ms: time_ms.ok_or_else(|| missing("ts"))?,
    })
}

fn side(scanner: &mut Scanner<'_>) -> Result<Side, ScanError> {
    let place = *scanner;
    match scanner.string()? {
        side if text::is(side, b"buy") => Ok(Side::Bid),
        side if text::is(side, b"sell") => Ok(Side::Ask),
        _ => Err(place.expected("buy or sell")),
    }
}
