//! Attaches and counts, to be measured beside `offcputime`: `offcpu SECONDS MIN_US [kernel] [user]`.

use std::time::Duration;

use quietcore_bpf::{OffCpu, OffCpuSettings, WaitKind, Watch};
use quietcore_measure::Nanos;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments.get(i).and_then(|text| text.parse().ok());
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let mut offcpu = OffCpu::start(&OffCpuSettings {
        watch: Watch::All,
        min: Nanos(number(1).unwrap_or(1) * 1000),
        kinds: WaitKind::ALL.into(),
        kernel: has("kernel"),
        user: has("user"),
        wakers: has("wakers"),
    })?;
    println!("attached {:?}", offcpu.health());
    std::thread::sleep(Duration::from_secs(number(0).unwrap_or(10)));
    offcpu.stop();
    println!("{:?} {:?}", offcpu.counts()?, offcpu.histogram()?);
    for wait in offcpu.waits()?.iter().take(5) {
        println!("{wait:x?}");
    }
    Ok(())
}
