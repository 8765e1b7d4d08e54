//! A real Java program that makes garbage.

use std::process::Command;

use quietcore_measure::{Kind, Nanos};

use super::program::{Workshop, play};
use crate::selftest::Injector;
use crate::selftest::protocol::{Line, Report};
use crate::selftest::stage::{NotHere, Span, Stage};

/// The victim spins and prints its gaps; another thread makes garbage. `System.nanoTime` is
/// CLOCK_MONOTONIC.
const SOURCE: &str = r#"
import java.nio.file.*;
public class Churn {
    static volatile Object sink;
    // The JVM notes a pause when it gets a CPU to do so, which must not take long.
    static void rest() {
        try { Thread.sleep(2); } catch (InterruptedException e) { throw new RuntimeException(e); }
    }
    public static void main(String[] args) throws Exception {
        String tid = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
        System.out.println("victim " + tid + " 0");
        System.in.read();
        Thread churn = new Thread(() -> {
            Object[] kept = new Object[20000];
            for (int i = 0; ; i++) {
                kept[i % kept.length] = sink = new byte[1024];
                if (i % 2000 == 0) rest();
            }
        });
        churn.setDaemon(true);
        churn.start();
        long before = System.nanoTime();
        while (true) {
            long after = System.nanoTime();
            if (after - before > 100_000) {
                System.out.println("felt " + before + " " + after);
                after = System.nanoTime();
            }
            before = after;
        }
    }
}
"#;

pub const INJECTOR: Injector = Injector {
    name: "java-gc",
    about: "a real JVM that collects garbage while one of its threads spins",
    expects: &[Kind::Gc],
    spins: false,
    threshold: Nanos::from_us(100),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let place = Workshop::open()?;
    let source = place.source("Churn.java", SOURCE)?;
    let mut java = Command::new("java");
    java.args(["-Xmx64m", "-Xint", "-XX:+UseSerialGC", "-Xlog:safepoint:stdout:tn"]).arg(source);
    play(stage, &mut java, pause)
}

/// `[123ns] Safepoint "GenCollectForAllocation", …, Total: 3456 ns`, printed when it ends.
fn pause(line: &str) -> Option<Line> {
    let (end, rest) = line.strip_prefix('[')?.split_once("ns]")?;
    let end: u64 = end.parse().ok()?;
    let (what, times) = rest.split_once("\",")?;
    let collects = what.contains("Collect") || what.contains("GC");
    let (_, total) = times.split_once("Total:")?;
    let total: u64 = total.trim().strip_suffix("ns")?.trim().parse().ok()?;
    collects.then_some(Line::Span(Report::Caused, Span { start: end.saturating_sub(total), end }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_read_from_the_jvm_s_own_log() {
        let line = "[9000ns] Safepoint \"GenCollectForAllocation\", Time since last: 5 ns, \
                    Reaching safepoint: 100 ns, At safepoint: 900 ns, Total: 1000 ns";
        let span = Span { start: 8000, end: 9000 };
        assert_eq!(pause(line), Some(Line::Span(Report::Caused, span)));
        assert_eq!(pause(&line.replace("GenCollectForAllocation", "Cleanup")), None);
        assert_eq!(pause("felt 1 2"), None);
    }
}
