//! A real JVM that makes garbage: the stops that are seen against those in its own log.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

/// Seconds for which garbage is made.
const SECONDS: u64 = 5;

/// Its main thread makes garbage for the given time, keeps some of it, and never waits by itself.
const SOURCE: &str = r#"
import java.nio.file.*;
public class Garbage {
    static volatile Object sink;
    public static void main(String[] args) throws Exception {
        Object[] kept = new Object[40000];
        System.out.println("thread " + Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName());
        System.in.read();
        System.out.println("begin");
        long end = System.nanoTime() + Long.parseLong(args[0]) * 1_000_000_000L;
        for (int i = 0; System.nanoTime() < end; i++) kept[i % kept.length] = sink = new byte[512];
        System.out.println("end");
        System.in.read();
    }
}
"#;

/// The shortest stop that counts, in nanoseconds; also the threshold of what is watched.
const SHORTEST: u64 = 50_000;

/// Runs the program with each collector and prints Markdown.
pub fn print(work: &Path, quietcore: &Path) -> Result<()> {
    let source = work.join("Garbage.java");
    fs::write(&source, SOURCE).with_context(|| source.display().to_string())?;
    println!("\n## A JVM's stops, as its own log has them\n");
    println!("Of 50 µs and more, in {SECONDS} s of a thread that makes garbage.\n");
    println!("| collector | in its log | named gc | mostly so | other names | not felt |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for collector in ["Serial", "Parallel", "G1"] {
        eprintln!("peer: java {collector}");
        let (tid, stops, spikes) = run(collector, &source, quietcore)?;
        row(collector, &stops, spikes.iter().filter(|spike| spike["thread"]["tid"] == tid));
    }
    println!();
    Ok(())
}

/// The thread, the stops in the log from beginning to end, and every spike of the process.
fn run(collector: &str, source: &Path, quietcore: &Path) -> Result<(u64, Vec<Stop>, Vec<Value>)> {
    let mut java = Command::new("java");
    java.env_remove("JAVA_TOOL_OPTIONS")
        .args(["-Xmx256m", &format!("-XX:+Use{collector}GC"), "-Xlog:safepoint:stdout:tn"])
        .arg(source)
        .arg(SECONDS.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut java = java.spawn().context("java")?;
    let mut stdin = java.stdin.take();
    let stdout = java.stdout.take().context("java's output")?;
    let mut lines = BufReader::new(stdout).lines();
    let tid = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("thread ")?.parse::<u64>().ok())
        .context("java did not begin")?;
    let mut watch = Command::new(quietcore);
    // Its result lists the longest only; as they happen, it shows all of them.
    watch.args(["spikes", "--pid", &java.id().to_string(), "--threshold", "50us", "--quiet"]);
    watch.args(["--live", "jsonl", "--duration", &format!("{}s", SECONDS + 3)]);
    let watching = thread::spawn(move || watch.output());
    thread::sleep(Duration::from_secs(2));
    stdin.as_mut().context("java's input")?.write_all(b"go")?;
    let mut stops = Vec::new();
    let mut begun = false;
    for line in lines.map_while(Result::ok) {
        match line.as_str() {
            "begin" => begun = true,
            // The end of its input ends it.
            "end" => (begun, _) = (false, stdin.take()),
            line => stops.extend(stop(line).filter(|_| begun)),
        }
    }
    java.wait().context("java")?;
    let watched = watching.join().map_err(|_| anyhow::anyhow!("the watching thread died"))??;
    let text = String::from_utf8_lossy(&watched.stdout);
    let spikes = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    stops.retain(|(start, end)| end - start >= SHORTEST);
    Ok((tid, stops, spikes))
}

/// A stop's beginning and end on CLOCK_MONOTONIC, in nanoseconds.
type Stop = (u64, u64);

/// `[123ns] Safepoint "GenCollectForAllocation", …, Total: 3456 ns`, printed when it ends.
fn stop(line: &str) -> Option<Stop> {
    let (end, rest) = line.strip_prefix('[')?.split_once("ns] Safepoint ")?;
    let (_, total) = rest.split_once("Total:")?;
    let (end, total): (u64, u64) =
        (end.parse().ok()?, total.trim().strip_suffix("ns")?.trim().parse().ok()?);
    Some((end.saturating_sub(total), end))
}

fn row<'a>(collector: &str, stops: &[Stop], spikes: impl Iterator<Item = &'a Value> + Clone) {
    let (mut gc, mut mostly, mut others, mut unfelt) = (0, 0, 0, 0);
    for stop in stops {
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for spike in spikes.clone() {
            let began = spike["start_ns"].as_u64().unwrap_or_default();
            for segment in spike["segments"].as_array().into_iter().flatten() {
                let start = began + segment["at_ns"].as_u64().unwrap_or_default();
                let end = start + segment["len_ns"].as_u64().unwrap_or_default();
                let both = end.min(stop.1).saturating_sub(start.max(stop.0));
                *times.entry(segment["kind"].as_str().unwrap_or_default()).or_default() += both;
            }
        }
        times.retain(|_, ns| *ns > 0);
        let most = times.iter().max_by_key(|(_, ns)| **ns).map(|(kind, _)| *kind);
        match (times.contains_key("gc"), most) {
            (true, most) => (gc, mostly) = (gc + 1, mostly + u64::from(most == Some("gc"))),
            (false, Some(_)) => others += 1,
            (false, None) => unfelt += 1,
        }
    }
    println!("| {collector} | {} | {gc} | {mostly} | {others} | {unfelt} |", stops.len());
}
