//! What a venue trades.

use super::VenueError;
use crate::fixed::Fixed;

/// Something that a venue trades.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instrument {
    /// Its name.
    pub symbol: String,
    /// Prices are multiples of this. `None`: finer than 1e-8.
    pub tick: Option<Fixed>,
    /// Quantities are multiples of this. `None`: finer than 1e-8.
    pub step: Option<Fixed>,
    /// What it is, in the venue's word: `PERPETUAL`, `SWAP`.
    pub contract: String,
    /// Its state, in the venue's word: `TRADING`, `live`.
    pub status: String,
    /// Is it traded now?
    pub is_trading: bool,
}

/// How similar a name must be to be suggested, from 0 to 1.
const SIMILAR: f64 = 0.7;

/// The instrument of this name, upper or lower case, if a book of it can be kept.
///
/// # Errors
/// There is none (the error names a similar one, if there is one), it is not traded, or its steps
/// are too fine.
pub fn find_instrument<'a>(
    all: &'a [Instrument],
    symbol: &str,
    venue: &'static str,
) -> Result<&'a Instrument, VenueError> {
    let found = all.iter().find(|instrument| instrument.symbol.eq_ignore_ascii_case(symbol));
    let Some(found) = found else {
        let near = similar(all, symbol);
        return Err(VenueError::NoInstrument { symbol: symbol.to_owned(), venue, near });
    };
    let symbol = found.symbol.clone();
    if !found.is_trading {
        return Err(VenueError::NotTrading { symbol, venue, status: found.status.clone() });
    }
    if found.tick.is_none() || found.step.is_none() {
        return Err(VenueError::TooFine { symbol });
    }
    Ok(found)
}

fn similar(all: &[Instrument], symbol: &str) -> Option<String> {
    let letters = |name: &str| -> String {
        name.chars().filter(|char| char.is_alphanumeric()).collect::<String>().to_uppercase()
    };
    let wanted = letters(symbol);
    let likeness = |name: &str| strsim::jaro_winkler(&letters(name), &wanted);
    let traded = all.iter().filter(|instrument| instrument.is_trading);
    let scored = traded.map(|instrument| (likeness(&instrument.symbol), &instrument.symbol));
    // The shorter name where two are as similar: BTCUSDT before BTCUSDT_260925.
    let best = scored.max_by(|(a, x), (b, y)| a.total_cmp(b).then(y.len().cmp(&x.len())));
    best.filter(|(likeness, _)| *likeness >= SIMILAR).map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instrument(symbol: &str) -> Instrument {
        Instrument {
            symbol: symbol.into(),
            tick: Some(Fixed(1)),
            step: Some(Fixed(1)),
            contract: "PERPETUAL".into(),
            status: "TRADING".into(),
            is_trading: true,
        }
    }

    fn error(all: &[Instrument], symbol: &str) -> String {
        find_instrument(all, symbol, "X").unwrap_err().to_string()
    }

    #[test]
    fn a_similar_name_is_suggested() {
        let all = ["ETHUSDT", "BTCUSDT_260925", "BTCUSDT", "SOLUSDT"].map(instrument);
        assert_eq!(find_instrument(&all, "btcusdt", "X"), Ok(&all[2]));
        for (asked, near) in [
            ("BTCUSTD", "BTCUSDT"),
            ("BTC-USDT", "BTCUSDT"),
            ("XBTUSDT", "BTCUSDT"),
            ("eth/usdt", "ETHUSDT"),
        ] {
            let told = format!("X has no instrument {asked:?}; did you mean {near:?}?");
            assert_eq!(error(&all, asked), told);
        }
        assert_eq!(error(&all, "QQQ"), "X has no instrument \"QQQ\"");
        assert_eq!(error(&[], "QQQ"), "X has no instrument \"QQQ\"");
    }

    #[test]
    fn one_that_is_settling_or_too_fine_is_refused() {
        let settling =
            Instrument { is_trading: false, status: "SETTLING".into(), ..instrument("A") };
        assert_eq!(
            error(&[settling], "A"),
            "\"A\" is not traded on X now: its status is \"SETTLING\""
        );
        let fine = Instrument { tick: None, ..instrument("PEPE-USDT") };
        assert!(error(&[fine], "PEPE-USDT").contains("finer than 1e-8"));
    }
}
