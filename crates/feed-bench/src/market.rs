//! The messages that all of them get.

use std::path::Path;

use anyhow::{Context, bail};
use quietcore_feed::market::{Levels, Says};
use quietcore_feed::recording::Reader;
use quietcore_feed::server::{Age, Channel, Generator, Settings, Source, Stream};
use quietcore_feed::venues::Venue;
use quietcore_feed::venues::binance_usdm::BinanceUsdm;

/// A book and the messages that follow it, in the wrapper of a combined stream.
#[derive(Debug)]
pub struct Sample {
    /// The answer to a request for the whole book.
    pub snapshot: Vec<u8>,
    /// In their order.
    pub messages: Vec<Vec<u8>>,
}

/// A market's settings: one instrument.
pub fn settings(seed: u64) -> Settings {
    Settings { seed, symbols: vec!["BTCUSDT".into()], ..Settings::default() }
}

impl Sample {
    /// Made up from a seed.
    pub fn generated(seed: u64, count: usize, channels: &[Channel]) -> anyhow::Result<Self> {
        let mut source = Source::Generated(Box::new(Generator::new(settings(seed))));
        let snapshot = source.snapshot(0, usize::MAX, Age::Now).context("a market has a book")?;
        let wanted = |stream: Stream| channels.contains(&stream.channel);
        let (mut messages, mut events) = (Vec::with_capacity(count), Vec::new());
        while messages.len() < count {
            source.step(&wanted, &mut events);
            messages.extend(
                events
                    .drain(..)
                    .map(|event| wrapped(event.stream.channel.suffix(), event.text.as_bytes())),
            );
        }
        messages.truncate(count);
        Ok(Self { snapshot: snapshot.into_bytes(), messages })
    }

    /// Recorded: from what joins the first snapshot in it on, as many as there are up to `count`.
    pub fn recorded(path: &Path, count: usize, depth_only: bool) -> anyhow::Result<Self> {
        let mut reader = Reader::open(path)?;
        let mut levels = Levels::default();
        let (mut snapshot, mut messages) = (None, Vec::new());
        while let Some(line) = reader.next_line()? {
            let Ok(message) = BinanceUsdm.scan(line.json, &mut levels) else { continue };
            let (channel, last) = match message.says {
                Says::Depth(depth) if depth.is_snapshot => {
                    snapshot = snapshot.or_else(|| Some((depth.last, line.json.to_vec())));
                    continue;
                }
                Says::Depth(depth) => ("depth@0ms", depth.last),
                Says::Quote(_) if !depth_only => ("bookTicker", u64::MAX),
                Says::Trade(_) if !depth_only => ("aggTrade", u64::MAX),
                _ => continue,
            };
            let text = match line.json.starts_with(b"{\"stream\"") {
                true => line.json.to_vec(),
                false => wrapped(channel, line.json),
            };
            messages.push((last, text));
            if messages.len() == count && snapshot.is_some() {
                break;
            }
        }
        let Some((from, snapshot)) = snapshot else {
            bail!("{}: there is no snapshot of a Binance USD-M book in it", path.display());
        };
        // The changes that a snapshot is joined to may have come before it.
        messages.retain(|(last, _)| *last >= from);
        let messages: Vec<_> = messages.into_iter().map(|(_, text)| text).collect();
        if messages.len() < 1_000 {
            bail!("{}: only {} messages follow the snapshot", path.display(), messages.len());
        }
        Ok(Self { snapshot, messages })
    }

    /// The snapshot's levels and update.
    pub fn book(&self) -> anyhow::Result<(Levels, u64)> {
        let mut levels = Levels::default();
        match BinanceUsdm.scan(&self.snapshot, &mut levels)?.says {
            Says::Depth(depth) if depth.is_snapshot => Ok((levels, depth.last)),
            says => bail!("a snapshot is read as {says:?}"),
        }
    }
}

fn wrapped(suffix: &str, text: &[u8]) -> Vec<u8> {
    let head = format!("{{\"stream\":\"btcusdt@{suffix}\",\"data\":");
    [head.as_bytes(), text, b"}"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_messages_and_they_are_read() {
        let channels = [Channel::DepthAtOnce, Channel::BookTicker];
        let [one, two] = [(); 2].map(|()| Sample::generated(3, 200, &channels).unwrap());
        assert_eq!(one.messages, two.messages);
        assert!(!one.book().unwrap().0.bids.is_empty());
        let mut levels = Levels::default();
        for message in &one.messages {
            let says = BinanceUsdm.scan(message, &mut levels).unwrap().says;
            assert!(matches!(says, Says::Depth(_) | Says::Quote(_)), "{says:?}");
        }
    }
}
