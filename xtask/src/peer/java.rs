//! A real JVM that makes garbage: the stops that are seen against those in its own log.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::stressors::json;

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

/// Runs the program with each collector and prints Markdown.
pub fn print(work: &Path, quietcore: &Path) -> Result<()> {
    let source = work.join("Garbage.java");
    fs::write(&source, SOURCE).with_context(|| source.display().to_string())?;
    println!("\n## A JVM's stops, as its own log has them\n");
    println!("Of 50 µs and more, in {SECONDS} s of a thread that makes garbage.\n");
    println!("| collector | in its log | together | named gc | together | other waits |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    for collector in ["Serial", "Parallel", "G1"] {
        eprintln!("peer: java {collector}");
        compare(collector, &source, quietcore)?;
    }
    println!();
    Ok(())
}

fn compare(collector: &str, source: &Path, quietcore: &Path) -> Result<()> {
    let mut java = Command::new("java");
    java.env_remove("JAVA_TOOL_OPTIONS")
        .args(["-Xmx256m", &format!("-XX:+Use{collector}GC"), "-Xlog:safepoint:stdout:none"])
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
    // A stop is watched for by process.
    watch.args(["spikes", "--pid", &java.id().to_string(), "--threshold", "50us"]);
    watch.args(["--live", "none", "--duration", &format!("{}s", SECONDS + 3)]);
    let watching = thread::spawn(move || json(&mut watch));
    thread::sleep(Duration::from_secs(2));
    stdin.as_mut().context("java's input")?.write_all(b"go")?;
    let mut logged: Vec<u64> = Vec::new();
    let mut begun = false;
    for line in lines.map_while(Result::ok) {
        match line.as_str() {
            "begin" => begun = true,
            // The end of its input ends it.
            "end" => (begun, _) = (false, stdin.take()),
            line => logged.extend(total(line).filter(|ns| begun && *ns >= 50_000)),
        }
    }
    let run = watching.join().map_err(|_| anyhow::anyhow!("the watching thread died"))??;
    java.wait().context("java")?;
    let sections = run["sections"].as_array().into_iter().flatten();
    let spikes = sections.filter(|of| of["name"] == "spikes");
    let spikes = spikes.flat_map(|of| of["spikes"].as_array().into_iter().flatten());
    let (mut gc, mut ns, mut others) = (0, 0, 0);
    for spike in spikes.filter(|spike| spike["thread"]["tid"] == tid) {
        let segments = spike["segments"].as_array().into_iter().flatten();
        let stops = segments.filter(|segment| segment["kind"] == "gc");
        match stops.filter_map(|segment| segment["len_ns"].as_u64()).sum() {
            0 => others += 1,
            stop => (gc, ns) = (gc + 1, ns + stop),
        }
    }
    let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
    println!(
        "| {collector} | {} | {} | {gc} | {} | {others} |",
        logged.len(),
        ms(logged.iter().sum()),
        ms(ns)
    );
    Ok(())
}

/// `Safepoint "GenCollectForAllocation", …, Total: 3456 ns`.
fn total(line: &str) -> Option<u64> {
    let (_, total) = line.strip_prefix("Safepoint ")?.split_once("Total:")?;
    total.trim().strip_suffix("ns")?.trim().parse().ok()
}
