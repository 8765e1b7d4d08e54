//! A real Go program that makes garbage.

use std::process::{Command, Stdio};

use quietcore_measure::{Kind, Nanos};

use super::program::{Workshop, play};
use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage};

/// The victim spins, locked to its thread; others make garbage. The runtime tells its pauses in
/// wall-clock time, which is put on CLOCK_MONOTONIC when each is read.
const SOURCE: &str = r#"
package main

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

var sink []byte

func monotonic() int64 {
	var ts syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

func main() {
	runtime.LockOSThread()
	fmt.Println("victim", syscall.Gettid(), 0)
	var answer string
	fmt.Scanln(&answer)
	base, begin := monotonic(), time.Now()
	felt := make(chan [2]int64, 65536)
	go func() {
		kept := make([][]byte, 20000)
		for i := 0; ; i++ {
			sink = make([]byte, 1024)
			kept[i%len(kept)] = sink
		}
	}()
	go func() {
		last := uint32(0)
		var m runtime.MemStats
		for {
			time.Sleep(100 * time.Millisecond)
			runtime.ReadMemStats(&m)
			wall := time.Now().UnixNano() - monotonic()
			for ; last < m.NumGC; last++ {
				end := int64(m.PauseEnd[last%256]) - wall
				// The length is that of two stops, of which this is the second's end.
				fmt.Println("caused", end-int64(m.PauseNs[last%256])/4, end)
			}
			for len(felt) > 0 {
				f := <-felt
				fmt.Println("felt", f[0], f[1])
			}
		}
	}()
	before := base + int64(time.Since(begin))
	for {
		after := base + int64(time.Since(begin))
		if after-before > 20000 {
			select {
			case felt <- [2]int64{before, after}:
			default:
			}
			after = base + int64(time.Since(begin))
		}
		before = after
	}
}
"#;

pub const INJECTOR: Injector = Injector {
    name: "go-gc",
    about: "a real Go program that collects garbage while one of its threads spins",
    expects: &[Kind::Gc],
    spins: false,
    threshold: Nanos::from_us(20),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let place = Workshop::open()?;
    let source = place.source("churn.go", SOURCE)?;
    let program = place.path().join("churn");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(&source).current_dir(place.path());
    go.env("GO111MODULE", "off").stdin(Stdio::null()).stdout(Stdio::null());
    let built = go.stderr(Stdio::null()).status();
    match built.map_err(|error| NotHere(format!("go: {error}")))?.success() {
        true => play(stage, &mut Command::new(program), |_| None),
        false => Err(NotHere("go: it could not build a program".into())),
    }
}
