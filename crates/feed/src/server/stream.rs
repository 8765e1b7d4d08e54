//! Streams by their names, and which of a venue's addresses serves them.

/// What of an instrument a stream tells.
///
/// Names after <https://developers.binance.com/docs/derivatives/usds-margined-futures/websocket-market-streams>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Changes of the book as they come (`@depth@0ms`; not documented, but served).
    DepthAtOnce,
    /// Changes of the book every 100 ms.
    Depth100,
    /// Changes of the book every 250 ms: what `@depth` alone means.
    Depth250,
    /// Changes of the book every 500 ms.
    Depth500,
    /// The best bid and ask whenever they change.
    BookTicker,
    /// Trades, those of one taker at one price together.
    AggTrade,
    /// Every trade (not documented, but served).
    Trade,
    /// Mark price and funding, every 3 s.
    Mark,
    /// Mark price and funding, every second.
    MarkEverySecond,
    /// OKX's `books`: a snapshot, then changes every 100 ms, with a checksum.
    Books,
}

impl Channel {
    /// Every channel.
    pub const ALL: [Self; 10] = [
        Self::DepthAtOnce,
        Self::Depth100,
        Self::Depth250,
        Self::Depth500,
        Self::BookTicker,
        Self::AggTrade,
        Self::Trade,
        Self::Mark,
        Self::MarkEverySecond,
        Self::Books,
    ];

    /// What follows the symbol in a stream's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::DepthAtOnce => "depth@0ms",
            Self::Depth100 => "depth@100ms",
            Self::Depth250 => "depth",
            Self::Depth500 => "depth@500ms",
            Self::BookTicker => "bookTicker",
            Self::AggTrade => "aggTrade",
            Self::Trade => "trade",
            Self::Mark => "markPrice",
            Self::MarkEverySecond => "markPrice@1s",
            Self::Books => "books",
        }
    }

    /// The channel of a stream's suffix. `depth@250ms` is `depth`.
    pub fn parse(suffix: &str) -> Option<Self> {
        match suffix {
            "depth@250ms" => Some(Self::Depth250),
            "markPrice@3s" => Some(Self::Mark),
            _ => Self::ALL.into_iter().find(|channel| channel.suffix() == suffix),
        }
    }

    /// Whether it tells changes of the book.
    pub fn is_depth(self) -> bool {
        matches!(
            self,
            Self::DepthAtOnce | Self::Depth100 | Self::Depth250 | Self::Depth500 | Self::Books
        )
    }
}

/// One instrument's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The instrument, by its place in the market's list.
    pub symbol: usize,
    /// What of it.
    pub channel: Channel,
}

/// Which address a connection was opened at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/public`: books and quotes.
    Public,
    /// `/market`: trades and prices.
    Market,
    /// `/ws` and `/stream`, from before the routes were split: everything.
    Legacy,
    /// OKX's `/ws/v5/public`.
    Okx,
}

impl Route {
    /// Its path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Public => "/public",
            Self::Market => "/market",
            Self::Legacy => "/ws",
            Self::Okx => "/ws/v5/public",
        }
    }

    /// Whether the route has the channel.
    pub fn serves(self, channel: Channel) -> bool {
        let public = matches!(
            channel,
            Channel::DepthAtOnce
                | Channel::Depth100
                | Channel::Depth250
                | Channel::Depth500
                | Channel::BookTicker
        );
        match self {
            Self::Okx => channel == Channel::Books,
            Self::Legacy => channel != Channel::Books,
            Self::Public => public,
            Self::Market => !public && channel != Channel::Books,
        }
    }
}

/// What a request's target asks to be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where.
    pub route: Route,
    /// Whether messages come as `{"stream":…,"data":…}`.
    pub is_combined: bool,
    /// Streams that the target names already.
    pub streams: Vec<String>,
}

impl Address {
    /// Reads a WebSocket request's target; nothing for one that no venue here has.
    pub fn parse(target: &str) -> Option<Self> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if path == "/ws/v5/public" {
            return Some(Self { route: Route::Okx, is_combined: false, streams: Vec::new() });
        }
        let (route, rest) = [("/public", Route::Public), ("/market", Route::Market)]
            .into_iter()
            .find_map(|(prefix, route)| Some((route, path.strip_prefix(prefix)?)))
            .unwrap_or((Route::Legacy, path));
        if rest == "/stream" {
            let names = query.split('&').find_map(|pair| pair.strip_prefix("streams="));
            let streams = names_in(names.unwrap_or(""));
            return Some(Self { route, is_combined: true, streams });
        }
        let names = rest.strip_prefix("/ws")?;
        if !names.is_empty() && !names.starts_with('/') {
            return None;
        }
        Some(Self { route, is_combined: false, streams: names_in(names) })
    }
}

fn names_in(list: &str) -> Vec<String> {
    list.split('/').filter(|name| !name.is_empty()).map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_read_back() {
        for channel in Channel::ALL {
            assert_eq!(Channel::parse(channel.suffix()), Some(channel));
        }
        assert_eq!(Channel::parse("depth@250ms"), Some(Channel::Depth250));
        assert_eq!(Channel::parse("depth@7ms"), None);
    }

    #[test]
    fn targets_say_where_and_what() {
        let address = |route, is_combined, streams: &[&str]| {
            let streams = streams.iter().map(ToString::to_string).collect();
            Some(Address { route, is_combined, streams })
        };
        for (target, wanted) in [
            ("/public/ws/a@depth/b@depth", address(Route::Public, false, &["a@depth", "b@depth"])),
            (
                "/public/stream?streams=a@depth/b@x",
                address(Route::Public, true, &["a@depth", "b@x"]),
            ),
            ("/market/ws", address(Route::Market, false, &[])),
            ("/market/stream", address(Route::Market, true, &[])),
            ("/ws/a@trade", address(Route::Legacy, false, &["a@trade"])),
            ("/stream?x=1&streams=a@trade", address(Route::Legacy, true, &["a@trade"])),
            ("/ws/v5/public", address(Route::Okx, false, &[])),
            ("/wsx", None),
            ("/private/ws", None),
            ("/", None),
        ] {
            assert_eq!(Address::parse(target), wanted, "{target}");
        }
    }

    #[test]
    fn a_channel_of_the_old_feed_has_one_route_of_the_new() {
        for channel in Channel::ALL {
            let routes = [Route::Public, Route::Market].map(|route| route.serves(channel));
            assert_eq!(routes[0] ^ routes[1], Route::Legacy.serves(channel), "{channel:?}");
        }
    }
}
