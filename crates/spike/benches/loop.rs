//! What a turn of the jitter loop costs next to a bare loop that only reads the clock.
//!
//! Both are in this binary, run on one CPU in turns (A B A B …), and are judged by the lower
//! quartile of many short rounds, so that other work on the machine spoils some rounds and not
//! the comparison. `cargo bench -p quietcore-spike --bench loop [-- --cpu N]`

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use quietcore_measure::CpuSet;
use quietcore_spike::spin::{Keep, Recorder, Window, spin};
use quietcore_sys::{sched, tsc};

const ROUNDS: usize = 200;
const TURNS: u64 = 200_000;

/// Ticks per turn of a loop that reads the counter and nothing else.
#[inline(never)]
fn bare() -> f64 {
    let begin = tsc::ticks();
    for _ in 0..TURNS {
        black_box(tsc::ticks());
    }
    (tsc::ticks() - begin) as f64 / TURNS as f64
}

/// Ticks per turn of the jitter loop, its recordings left out as it leaves them out itself.
fn jitter(recorder: &mut Recorder, stop: &AtomicBool, look_every: u64, length: u64) -> f64 {
    let (turns, own) = (recorder.count(), recorder.own().ticks);
    let deadline = tsc::ticks() + length;
    spin(tsc::ticks, Window { start: 0, deadline, look_every }, stop, recorder);
    let own = recorder.own().ticks - own;
    (recorder.elapsed() - own) as f64 / (recorder.count() - turns) as f64
}

/// Ticks that recording a gap takes, the store being full, when every turn is one.
fn recording(recorder: &mut Recorder, stop: &AtomicBool, length: u64) -> f64 {
    let before = recorder.own();
    let deadline = tsc::ticks() + length;
    spin(tsc::ticks, Window { start: 0, deadline, look_every: length }, stop, recorder);
    let after = recorder.own();
    (after.ticks - before.ticks) as f64 / (after.times - before.times) as f64
}

fn quartile(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != "--cpu").skip(1);
    let allowed = sched::affinity(sched::CALLER).expect("affinity of this thread");
    let cpu = match args.next() {
        Some(number) => number.parse().expect("--cpu takes a number"),
        None => allowed.highest().expect("a CPU to run on"),
    };
    sched::place(sched::CALLER, &[cpu].into_iter().collect::<CpuSet>()).expect("pinning");

    let clock = tsc::Clock::start(&[cpu].into_iter().collect());
    println!("{clock}");
    let rate = clock.rate();
    let keep = Keep { largest: 10_000, sampled: 50_000, seed: 1 };
    let recorder = |threshold| Recorder::new(rate, threshold, rate.ticks(200), keep);
    let stop = AtomicBool::new(false);
    let length = TURNS * 25;

    let [mut seldom, mut often, mut always] = [rate.ticks(100), rate.ticks(100), 1].map(recorder);
    let [mut a, mut b, mut c, mut d] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        a.push(bare());
        b.push(jitter(&mut seldom, &stop, rate.ticks(1_000_000), length));
        a.push(bare());
        // Looking at the stop flag every turn: what the loop would pay for it.
        c.push(jitter(&mut often, &stop, 1, length));
        d.push(recording(&mut always, &stop, length));
    }
    let [a, b, c, d] = [&mut a, &mut b, &mut c, &mut d].map(|values| quartile(values));
    println!("CPU {cpu}, {ROUNDS} rounds, lower quartile, ticks per turn (ns)");
    let line = |name: &str, value: f64| {
        println!("{name:<44} {value:6.2} ({:.2} ns)  x {:.3}", value * 1e9 / rate.hz(), value / a);
    };
    line("bare loop", a);
    line("jitter loop", b);
    line("jitter loop, stop flag looked at every turn", c);
    println!("recording a gap, two turns at a time {d:13.2} ({:.2} ns)", d * 1e9 / rate.hz());
}
