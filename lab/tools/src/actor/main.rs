//! Makes waits whose causes are known: `actor PART SECONDS`.
//!
//! `crowd`: the threads `victim` and `intruder` want the same CPU, by the affinity they are given.
//! `lock`: `holder` keeps a lock for most of the time and `waiter` wants it.
//! `sleep`: `sleeper` sleeps for a while, over and over.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

const WHILE: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [part, seconds] = &args[..] else { return usage() };
    let Ok(seconds) = seconds.parse() else { return usage() };
    let end = Instant::now() + Duration::from_secs(seconds);
    let lock = Arc::new(Mutex::new(()));
    let threads = match part.as_str() {
        "crowd" => vec![act("victim", end, || ()), act("intruder", end, || ())],
        "lock" => {
            let [held, wanted] = [Arc::clone(&lock), lock];
            let hold = move || {
                let _held = held.lock().unwrap_or_else(PoisonError::into_inner);
                sleep(WHILE);
            };
            let want = move || {
                drop(wanted.lock().unwrap_or_else(PoisonError::into_inner));
                sleep(WHILE / 10);
            };
            vec![act("holder", end, hold), act("waiter", end, want)]
        }
        "sleep" => vec![act("sleeper", end, || sleep(WHILE))],
        _ => return usage(),
    };
    let ended = threads.into_iter().map(|thread| thread.and_then(|it| it.join().map_err(|_| ())));
    if ended.collect::<Result<Vec<()>, ()>>().is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn usage() -> ExitCode {
    eprintln!("actor crowd|lock|sleep SECONDS");
    ExitCode::from(2)
}

/// A thread of that name that does this until the end.
fn act(
    name: &str,
    end: Instant,
    mut what: impl FnMut() + Send + 'static,
) -> Result<JoinHandle<()>, ()> {
    let body = move || {
        while Instant::now() < end {
            what();
        }
    };
    Builder::new().name(name.to_owned()).spawn(body).map_err(|_| ())
}
