//! Reads a script.

use std::str::FromStr;
use std::time::Duration;

use quietcore_measure::Nanos;

use super::{Answer, Fault, Pattern, Refusal, Request, Rule, Script, When};
use crate::server::certificate::Flaw;
use crate::server::source::Age;
use crate::server::stream::Channel;

/// A message is never larger: 64 MiB.
const LARGEST: u64 = 64 << 20;

/// Why a script cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the fault script: {problem}")]
pub struct ScriptError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

/// The words of a line, read one by one.
struct Words<'a>(std::iter::Peekable<std::str::SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    fn next(&mut self, wanted: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("ends where {wanted} is expected"))
    }

    fn number(&mut self, wanted: &str) -> Result<u64, String> {
        let word = self.next(wanted)?;
        let number = word.replace('_', "").parse();
        number.map_err(|_| format!("{word:?} is not {wanted}, a whole number"))
    }

    fn at_least_one(&mut self, wanted: &str) -> Result<u64, String> {
        match self.number(wanted)? {
            0 => Err(format!("{wanted} cannot be 0")),
            number => Ok(number),
        }
    }

    fn duration(&mut self, wanted: &str) -> Result<Duration, String> {
        let word = self.next(wanted)?;
        let nanos: Result<Nanos, _> = word.parse();
        let nanos = nanos.map_err(|_| format!("{word:?} is not {wanted}, such as 2s or 500ms"))?;
        Ok(Duration::from_nanos(nanos.0))
    }

    /// Takes the next word if it is this one.
    fn take(&mut self, word: &str) -> bool {
        self.0.next_if(|next| *next == word).is_some()
    }

    fn is_number(&mut self) -> bool {
        self.0.peek().is_some_and(|word| word.starts_with(|first: char| first.is_ascii_digit()))
    }

    /// A number if there is one, else 1.
    fn count(&mut self, wanted: &str) -> Result<u64, String> {
        if self.is_number() { self.at_least_one(wanted) } else { Ok(1) }
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for (index, line) in text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or("");
            for statement in code.split(';').filter(|part| !part.trim().is_empty()) {
                let mut words = Words(statement.split_whitespace().peekable());
                let read = script.statement(&mut words).and_then(|()| match words.0.next() {
                    Some(word) => Err(format!("{word:?} is one word too many")),
                    None => Ok(()),
                });
                read.map_err(|problem| ScriptError { line: index + 1, problem })?;
            }
        }
        Ok(script)
    }
}

impl Script {
    fn statement(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let first = words.next("a fault")?;
        let when = match first {
            "at" => When::At(words.duration("a time after the start")?),
            "after" => When::After(words.number("a number of events")?),
            "every" => When::Every(words.at_least_one("a number of events")?),
            "rest" => return self.refusal(Request::Rest, words),
            "upgrade" => return self.refusal(Request::Upgrade, words),
            "snapshot" => return self.snapshot(words),
            "certificate" => return self.flaw(words),
            _ => {
                return Err(format!(
                    "{first:?} starts no fault; at TIME, after N events, every N events, rest, \
                     upgrade, snapshot and certificate do"
                ));
            }
        };
        if !matches!(when, When::At(_)) && !words.take("events") {
            words.take("event");
        }
        let fault = fault(words)?;
        let pattern = if words.take("on") { pattern(words)? } else { Pattern::default() };
        self.rules.push(Rule { when, fault, pattern });
        Ok(())
    }

    fn refusal(&mut self, request: Request, words: &mut Words<'_>) -> Result<(), String> {
        let status = words.number("an HTTP status")?;
        let status = u16::try_from(status).ok().filter(|status| (400..600).contains(status));
        let status = status.ok_or("a refusal's status is 400 to 599")?;
        let retry_after = if words.take("retry-after") {
            let time = words.duration("a time to wait")?;
            Some(time.as_secs() + u64::from(time.subsec_nanos() > 0))
        } else {
            None
        };
        self.add_refusal(request, Answer::Refuse(status, retry_after), words)
    }

    fn snapshot(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let age = match words.next("stale or future")? {
            "stale" => Age::Past,
            "future" => Age::Future(words.at_least_one("a number of depth messages")?),
            other => return Err(format!("a snapshot is stale or future N, not {other:?}")),
        };
        self.add_refusal(Request::Snapshot, Answer::Book(age), words)
    }

    fn add_refusal(
        &mut self,
        request: Request,
        answer: Answer,
        words: &mut Words<'_>,
    ) -> Result<(), String> {
        let mut refusal = Refusal { request, answer, after: 0, times: 1 };
        if words.is_number() {
            refusal.times = words.at_least_one("a number of times")?;
            if !words.take("times") {
                words.take("time");
            }
        } else if words.take("always") {
            refusal.times = u64::MAX;
        }
        if words.take("after") {
            refusal.after = words.number("a number of requests")?;
            if !words.take("requests") {
                words.take("request");
            }
        }
        self.refusals.push(refusal);
        Ok(())
    }

    fn flaw(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let flaw = match words.next("expired, wrong-name or unknown-issuer")? {
            "expired" => Flaw::Expired,
            "wrong-name" => Flaw::WrongName,
            "unknown-issuer" => Flaw::UnknownIssuer,
            other => {
                return Err(format!(
                    "a certificate is expired, wrong-name or unknown-issuer, not {other:?}"
                ));
            }
        };
        self.certificate = Some(flaw);
        Ok(())
    }
}

fn fault(words: &mut Words<'_>) -> Result<Fault, String> {
    Ok(match words.next("what goes wrong")? {
        "gap" => Fault::Gap(words.count("a number of events")?),
        "duplicate" => Fault::Duplicate(words.count("a number of events")?),
        "reorder" => Fault::Reorder(words.count("a number of events")?),
        "crossed" => Fault::Crossed(words.count("a number of events")?),
        "wrong-checksum" => Fault::WrongChecksum(words.count("a number of events")?),
        "drop" => Fault::Drop,
        "close" => close(words)?,
        "half-close" => Fault::HalfClose,
        "ping-flood" => Fault::PingFlood(words.at_least_one("a number of pings")?),
        "slow" => Fault::Slow(words.at_least_one("bytes a second")?),
        "silence" => Fault::Silence(words.duration("how long")?),
        "garbage" => Fault::Garbage,
        "bad-text" => Fault::BadText,
        "oversize" => {
            let bytes = words.at_least_one("a number of bytes")?;
            let fits = usize::try_from(bytes).ok().filter(|_| bytes <= LARGEST);
            Fault::Oversize(fits.ok_or_else(|| format!("no message is larger than {LARGEST}"))?)
        }
        "fragment" => Fault::Fragment(words.count("a number of events")?),
        "masked" => Fault::Masked,
        "key-update" => Fault::KeyUpdate,
        "corrupt" => Fault::Corrupt,
        other => {
            return Err(format!(
                "{other:?} is no fault; these are: gap, duplicate, reorder, crossed, \
                 wrong-checksum, drop, close, half-close, ping-flood, slow, silence, garbage, bad-text, oversize, fragment, \
                 masked, key-update, corrupt"
            ));
        }
    })
}

fn close(words: &mut Words<'_>) -> Result<Fault, String> {
    let code = words.number("a close code")?;
    if code == 1006 {
        return Ok(Fault::Drop);
    }
    let code = u16::try_from(code).ok().filter(|code| (1000..5000).contains(code));
    let code = code.ok_or("a close code is 1000 to 4999")?;
    let mut reason = Vec::new();
    while let Some(word) = words.0.next_if(|word| *word != "on") {
        reason.push(word);
    }
    let reason = reason.join(" ");
    if reason.len() > 123 {
        return Err("a close frame's reason has at most 123 bytes".into());
    }
    Ok(Fault::Close(code, reason))
}

fn pattern(words: &mut Words<'_>) -> Result<Pattern, String> {
    let word = words.next("a symbol or stream")?;
    let (symbol, channel) = word.split_once('@').unwrap_or((word, ""));
    let known = channel.is_empty() || Channel::parse(channel).is_some();
    if !known {
        return Err(format!("{channel:?} is no channel"));
    }
    let named = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Ok(Pattern { symbol: named(&symbol.to_ascii_lowercase()), channel: named(channel) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Rule {
        let script: Script = text.parse().unwrap();
        assert_eq!(script.rules.len(), 1, "{text}");
        script.rules[0].clone()
    }

    #[test]
    fn every_fault_has_its_words() {
        use Fault::*;
        let second = Duration::from_secs(1);
        for (text, fault) in [
            ("gap 3", Gap(3)),
            ("gap", Gap(1)),
            ("duplicate 2", Duplicate(2)),
            ("reorder 4", Reorder(4)),
            ("crossed 2", Crossed(2)),
            ("wrong-checksum", WrongChecksum(1)),
            ("drop", Drop),
            ("close 1008 Too many requests", Close(1008, "Too many requests".into())),
            ("close 1006", Drop),
            ("half-close", HalfClose),
            ("ping-flood 100", PingFlood(100)),
            ("slow 2_000", Slow(2_000)),
            ("silence 1s", Silence(second)),
            ("garbage", Garbage),
            ("bad-text", BadText),
            ("oversize 1048576", Oversize(1 << 20)),
            ("fragment 5", Fragment(5)),
            ("masked", Masked),
            ("key-update", KeyUpdate),
            ("corrupt", Corrupt),
        ] {
            assert_eq!(one(&format!("after 7 events {text}")).fault, fault, "{text}");
        }
    }

    #[test]
    fn moments_and_patterns() {
        let rule = one("at 2s gap on BTCUSDT@depth # a comment");
        assert_eq!(rule.when, When::At(Duration::from_secs(2)));
        assert!(rule.pattern.matches("btcusdt", Channel::Depth100));
        assert!(!rule.pattern.matches("ethusdt", Channel::Depth100));
        assert!(!rule.pattern.matches("btcusdt", Channel::BookTicker));
        assert_eq!(one("every 5 events drop").when, When::Every(5));
        assert_eq!(one("after 1 event drop").when, When::After(1));
        assert!(one("after 1 drop on @depth").pattern.matches("x", Channel::Depth250));
        assert!(one("after 1 drop on x").pattern.matches("X", Channel::Mark));
        assert!(!one("after 1 drop on x@depth@100ms").pattern.matches("x", Channel::Depth250));
    }

    #[test]
    fn requests_and_certificates() {
        let script: Script =
            "rest 429 retry-after 1500ms 2 times; snapshot future 4 after 1 request\n\
             upgrade 503 always\ncertificate wrong-name"
                .parse()
                .unwrap();
        let refusal = |request, answer, after, times| Refusal { request, answer, after, times };
        assert_eq!(
            script.refusals,
            [
                refusal(Request::Rest, Answer::Refuse(429, Some(2)), 0, 2),
                refusal(Request::Snapshot, Answer::Book(Age::Future(4)), 1, 1),
                refusal(Request::Upgrade, Answer::Refuse(503, None), 0, u64::MAX),
            ]
        );
        assert_eq!(script.certificate, Some(Flaw::WrongName));
    }

    #[test]
    fn an_error_names_the_line_and_what_would_be_right() {
        for (text, problem) in [
            ("\nonce drop", "line 2 of the fault script: \"once\" starts no fault"),
            ("at 2 parsecs drop", "such as 2s or 500ms"),
            ("after 5 events explode", "\"explode\" is no fault; these are: gap"),
            ("after 5 events gap 0", "cannot be 0"),
            ("after 5 events drop now", "\"now\" is one word too many"),
            ("after 5 events close 99", "1000 to 4999"),
            ("rest 200", "400 to 599"),
            ("snapshot old", "stale or future N"),
            ("after 5 drop on btcusdt@nothing", "is no channel"),
            ("after", "ends where a number of events is expected"),
        ] {
            let error = text.parse::<Script>().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
