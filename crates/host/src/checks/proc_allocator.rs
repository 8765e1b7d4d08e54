use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Runtime;

use crate::subject::{Subject, unread};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.allocator",
    cause: Cause::Lock,
    about: "A program of many threads has an allocator made for them",
    why: "glibc's malloc shares arenas among threads, each behind a lock; whoever frees what \
          another thread allocated takes that thread's. musl's has one lock for all. jemalloc, \
          tcmalloc, mimalloc and others keep memory per thread. Told by the libraries the process \
          has mapped and by MALLOC_ARENA_MAX; an allocator that was linked into the program \
          itself is not seen, and a path that never allocates needs none.",
    cost: Cost {
        us: 50.0,
        text: "100 µs–10 ms under load while another thread holds the lock; ranked at a tenth, for it takes one",
        origin: "article on determinism, taxonomy and failure 3; article on profiling, what was found",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

const MADE_FOR_THREADS: [&str; 8] = [
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "libsnmalloc",
    "librpmalloc",
    "libtbbmalloc",
    "libhoard",
    "libmesh",
];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let process = subject.process;
    if let Some(runtime @ (Runtime::Jvm | Runtime::Go)) = process.runtime.value() {
        let name = if *runtime == Runtime::Jvm { "Java" } else { "Go" };
        return Verdict::not_applicable(format!("{name} has an allocator of its own"));
    }
    let Some(libraries) = process.libraries.value() else { return unread(&process.libraries) };
    let source = format!("/proc/{}/maps", facts.pid().unwrap_or_default());
    let found = |names: &[&str]| {
        libraries.iter().find(|library| names.iter().any(|name| library.starts_with(name)))
    };
    if let Some(library) = found(&MADE_FOR_THREADS) {
        return Verdict::pass(format!("the allocator is {library}")).evidence(source, library);
    }
    let threads = subject.threads.len();
    if threads < 2 {
        return Verdict::pass(
            "the process has one thread: nobody else wants its allocator's locks",
        );
    }
    let Some(library) = found(&["libc.so.6", "libc-2.", "ld-musl", "libc.musl"]) else {
        return Verdict::unknown(
            "no C library is mapped: the program was linked with its allocator",
        );
    };
    let environment = process.environment.value();
    let arenas = environment.and_then(|e| e.get("MALLOC_ARENA_MAX")).filter(|max| *max == "1");
    let name = if library.contains("musl") { "musl" } else { "glibc" };
    let verdict = match (arenas, name) {
        (Some(_), "glibc") => Verdict::fail_if(
            scope.is_declared(),
            format!("{threads} threads share one arena of glibc's malloc (MALLOC_ARENA_MAX=1)"),
        )
        .evidence("environment", "MALLOC_ARENA_MAX=1"),
        _ => Verdict::warn(format!(
            "{threads} threads allocate with {name}'s malloc, as far as libraries tell"
        )),
    };
    verdict.evidence(source, library).fix(
        "apt install libjemalloc2 && LD_PRELOAD=libjemalloc.so.2 PROGRAM   # or allocate nothing on the hot path",
    )
}
