//! What asking costs: both tools on this machine, in turn, so that neither has the quieter hour.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::tally::counts;

/// GNU time: it is small, and a process' peak memory includes that of its parent at the fork.
const TIME: &str = "/usr/bin/time";

/// Runs both `pairs` times and prints the medians.
pub fn print(pairs: usize, quietcore: &Path, latency_audit: &Path, work: &Path) -> Result<()> {
    if pairs == 0 {
        return Ok(());
    }
    let tools = [
        Tool {
            name: "quietcore audit",
            program: quietcore,
            args: &["audit", "--quiet", "--format", "json"],
        },
        Tool { name: "latency-audit", program: latency_audit, args: &["--json"] },
    ];
    let mut wall: [Vec<Duration>; 2] = Default::default();
    let mut memory: [Vec<u64>; 2] = Default::default();
    for _ in 0..pairs {
        for (tool, wall) in tools.iter().zip(&mut wall) {
            let start = Instant::now();
            tool.ended(Command::new(tool.program).args(tool.args))?;
            wall.push(start.elapsed());
        }
        for (tool, memory) in tools.iter().zip(&mut memory) {
            memory.extend(tool.peak_kib(work)?);
        }
    }
    println!("## Cost, on the machine that ran this\n");
    println!("Median (smallest to largest) of {pairs} runs of each, in turn.\n");
    println!("| | wall | peak memory | results |");
    println!("| --- | ---: | ---: | --- |");
    for ((tool, wall), memory) in tools.iter().zip(wall).zip(memory) {
        let ms = |d: Duration| format!("{:.1}", d.as_secs_f64() * 1e3);
        let mib = |kib: u64| format!("{:.1}", kib as f64 / 1024.0);
        println!(
            "| {} | {} | {} | {} |",
            tool.name,
            spread(wall, "ms", ms),
            spread(memory, "MiB", mib),
            tool.results()?
        );
    }
    println!();
    Ok(())
}

struct Tool<'a> {
    name: &'static str,
    program: &'a Path,
    args: &'static [&'static str],
}

impl Tool<'_> {
    fn ended(&self, command: &mut Command) -> Result<()> {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        match status.with_context(|| self.name)?.code() {
            // 1 is findings.
            Some(0 | 1) => Ok(()),
            other => bail!("{}: ended with {other:?}", self.name),
        }
    }

    /// `None` where GNU time is not installed.
    fn peak_kib(&self, work: &Path) -> Result<Option<u64>> {
        if !Path::new(TIME).exists() {
            return Ok(None);
        }
        let file = work.join("peak");
        let mut command = Command::new(TIME);
        command.args(["--quiet", "--format=%M", "--output"]).arg(&file);
        self.ended(command.arg(self.program).args(self.args))?;
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        Ok(Some(text.trim().parse().with_context(|| format!("{TIME}: `{text}`"))?))
    }

    /// How many checks gave which answer.
    fn results(&self) -> Result<String> {
        let output = Command::new(self.program).args(self.args).output()?;
        let said: Value = serde_json::from_slice(&output.stdout).with_context(|| self.name)?;
        let sections = said["sections"].as_array().into_iter().flatten();
        let lists = sections.map(|section| &section["findings"]).chain([&said["checks"]]);
        let results: Vec<&Value> = lists.filter_map(Value::as_array).flatten().collect();
        let statuses = results.iter().filter_map(|result| result["status"].as_str());
        Ok(format!("{}: {}", results.len(), counts(statuses)))
    }
}

/// `median unit (least–most)`.
pub fn spread<T: Ord + Copy>(mut values: Vec<T>, unit: &str, show: impl Fn(T) -> String) -> String {
    values.sort_unstable();
    match (values.first(), values.get(values.len() / 2), values.last()) {
        (Some(&least), Some(&median), Some(&most)) => {
            format!("{} {unit} ({}–{})", show(median), show(least), show(most))
        }
        _ => "not measured: GNU time is not installed".to_owned(),
    }
}
