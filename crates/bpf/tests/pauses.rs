//! Stops of real runtimes are seen: a Go program and a JVM that collect garbage when told to.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quietcore_bpf::{Pause, Runtime, Settings, Timeline, Watch};
use quietcore_measure::Nanos;

/// How often the programs collect.
const COLLECTIONS: usize = 10;

/// Collects ten times for every line it reads, then says so.
const GO: &str = r#"package main
import ("bufio"; "fmt"; "os"; "runtime")
var keep [][]byte
func main() {
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	for lines.Scan() {
		for i := 0; i < 10; i++ { keep = append(keep, make([]byte, 1<<16)); runtime.GC() }
		fmt.Println("done")
	}
}
"#;

const JAVA: &str = r#"import java.util.*;
public class Collect {
    static List<byte[]> keep = new ArrayList<>();
    public static void main(String[] args) {
        Scanner lines = new Scanner(System.in);
        System.out.println("ready");
        while (lines.hasNextLine()) {
            lines.nextLine();
            for (int i = 0; i < 10; i++) { keep.add(new byte[1 << 16]); System.gc(); }
            System.out.println("done");
        }
    }
}
"#;

struct Program {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Program {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self { child, said };
        program.hear("ready");
        program
    }

    fn hear(&mut self, expected: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected);
    }

    fn collect(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        self.hear("done");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pauses_of(command: &mut Command, runtime: Runtime) -> Vec<Pause> {
    let mut program = Program::start(command);
    let pid = program.child.id();
    let settings = Settings::new(Watch::Process(pid), Nanos::from_ms(1));
    let mut timeline = Timeline::start(&settings).unwrap();
    assert_eq!(timeline.watch_pauses(pid).unwrap(), [runtime]);
    program.collect();
    // A pause is written as the runtime ends it, which may be after the program goes on.
    std::thread::sleep(Duration::from_millis(100));
    timeline.waits().unwrap();
    let pauses = timeline.pauses();
    assert!(pauses.iter().all(|pause| pause.tgid == pid && pause.start < pause.end), "{pauses:?}");
    assert!(timeline.pauses().is_empty());
    pauses
}

fn build(folder: &Path, file: &str, text: &str) -> String {
    let source = folder.join(file);
    fs::write(&source, text).unwrap();
    source.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs root: cargo test -p quietcore-bpf --test pauses -- --ignored"]
fn root_every_collection_of_a_go_program_is_a_pause() {
    let folder = tempfile::tempdir().unwrap();
    let source = build(folder.path(), "collect.go", GO);
    let binary = folder.path().join("collect");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&binary).arg(source).env("GOCACHE", folder.path().join("cache"));
    assert!(go.status().unwrap().success());
    let pauses = pauses_of(&mut Command::new(&binary), Runtime::Go);
    assert!(pauses.len() >= COLLECTIONS, "{pauses:?}");
}

#[test]
#[ignore = "needs root: cargo test -p quietcore-bpf --test pauses -- --ignored"]
fn root_every_collection_of_a_jvm_is_a_pause() {
    let folder = tempfile::tempdir().unwrap();
    let source = build(folder.path(), "Collect.java", JAVA);
    let pauses = pauses_of(Command::new("java").arg(source), Runtime::Jvm);
    assert!(pauses.len() >= COLLECTIONS, "{pauses:?}");
}

#[test]
#[ignore = "needs root: cargo test -p quietcore-bpf --test pauses -- --ignored"]
fn root_a_program_without_a_runtime_has_no_pauses() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let settings = Settings::new(Watch::Process(child.id()), Nanos::from_ms(1));
    let watched = Timeline::start(&settings).unwrap().watch_pauses(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(watched.unwrap(), []);
}
