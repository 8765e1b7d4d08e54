//! Finding the threads that a map means.

use quietcore_measure::CpuSet;
use quietcore_sys::host::Task;

use super::{Map, Rule, Who};

/// The kernel keeps so many bytes of a thread's name.
const KEPT: usize = 15;

/// What a process has and may.
#[derive(Clone, Debug)]
pub struct Ground<'a> {
    /// The process.
    pub pid: u32,
    /// Its threads.
    pub threads: &'a [Task],
    /// The online CPUs.
    pub online: &'a CpuSet,
    /// The CPUs that its control group leaves it, behind the file that says so; `None` where none
    /// is known to limit it.
    pub cpuset: Option<(String, CpuSet)>,
}

/// A thread and the CPUs it is to run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The thread as it was found.
    pub task: Task,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The entry that means it.
    pub who: Who,
}

/// Why threads are not placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The map names no thread of the process.
    #[error("no thread is called {who}: the process has {}", listed(threads))]
    NoThread {
        /// The entry.
        who: Who,
        /// All threads.
        threads: Vec<String>,
    },
    /// The map names several.
    #[error(
        "{who} means {} threads, {}: write the whole name, or tid:NUMBER",
        threads.len(),
        listed(threads)
    )]
    Several {
        /// The entry.
        who: Who,
        /// Those it means.
        threads: Vec<String>,
    },
    /// Two entries mean the same thread.
    #[error("{first} and {second} both mean thread {thread}: leave one out")]
    Same {
        /// An entry.
        first: Who,
        /// Another.
        second: Who,
        /// The thread.
        thread: String,
    },
    /// Two threads on one CPU.
    #[error(
        "{first} and {second} would share CPUs {cpus}: give each its own, or let them with --share"
    )]
    Shared {
        /// An entry.
        first: Who,
        /// Another.
        second: Who,
        /// The CPUs of both.
        cpus: CpuSet,
    },
    /// CPUs that are not online.
    #[error("{who}: CPUs {cpus} are not online (online: {online}): name others")]
    Offline {
        /// The entry.
        who: Who,
        /// The CPUs.
        cpus: CpuSet,
        /// Those that are.
        online: CpuSet,
    },
    /// CPUs that the process' control group keeps from it.
    #[error(
        "{who}: CPUs {cpus} are outside the control group of the process, which has {allowed} \
         ({file}): name CPUs of it, give the group more, or move the process"
    )]
    Outside {
        /// The entry.
        who: Who,
        /// The CPUs.
        cpus: CpuSet,
        /// Those of the group.
        allowed: CpuSet,
        /// The file that says so.
        file: String,
    },
    /// The kernel does not let the thread be moved.
    #[error("thread {thread} ({who}) is the kernel's own and tied to its CPU: leave it out")]
    Bound {
        /// The entry.
        who: Who,
        /// The thread.
        thread: String,
    },
}

fn listed(threads: &[String]) -> String {
    const SHOWN: usize = 20;
    let more = threads.len().saturating_sub(SHOWN);
    let shown = threads.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// The threads that a map means, with their CPUs; `share` lets several be on one.
///
/// # Errors
/// Every [`Refusal`] that applies.
pub fn assign(map: &Map, ground: &Ground, share: bool) -> Result<Vec<Placement>, Vec<Refusal>> {
    let mut refusals: Vec<Refusal> =
        map.rules().iter().filter_map(|rule| out_of_reach(rule, ground)).collect();
    let mut placed: Vec<Placement> = Vec::new();
    for rule in map.rules().iter().filter(|rule| rule.who != Who::Others) {
        match find(&rule.who, ground) {
            Ok(task) => match placed.iter().find(|other| other.task.tid == task.tid) {
                Some(other) => refusals.push(Refusal::Same {
                    first: other.who.clone(),
                    second: rule.who.clone(),
                    thread: task.label(),
                }),
                None => placed.push(placement(rule, task)),
            },
            Err(refusal) => refusals.push(refusal),
        }
    }
    if let Some(rule) = map.rules().iter().find(|rule| rule.who == Who::Others) {
        let rest = |task: &&Task| placed.iter().all(|other| other.task.tid != task.tid);
        let rest: Vec<Placement> =
            ground.threads.iter().filter(rest).map(|task| placement(rule, task)).collect();
        placed.extend(rest);
    }
    let bound = placed.iter().filter(|one| one.task.bound);
    refusals
        .extend(bound.map(|one| Refusal::Bound { who: one.who.clone(), thread: one.task.label() }));
    if !share {
        refusals.extend(shared(map.rules()));
    }
    if refusals.is_empty() { Ok(placed) } else { Err(refusals) }
}

fn placement(rule: &Rule, task: &Task) -> Placement {
    Placement { task: task.clone(), cpus: rule.cpus.clone(), who: rule.who.clone() }
}

fn out_of_reach(rule: &Rule, ground: &Ground) -> Option<Refusal> {
    let who = || rule.who.clone();
    let offline = rule.cpus.minus(ground.online);
    if !offline.is_empty() {
        let online = ground.online.clone();
        return Some(Refusal::Offline { who: who(), cpus: offline, online });
    }
    let (file, allowed) = ground.cpuset.clone()?;
    let cpus = rule.cpus.minus(&allowed);
    (!cpus.is_empty()).then(|| Refusal::Outside { who: who(), cpus, allowed, file })
}

/// The one thread that an entry means: a whole name before the beginning of one.
fn find<'a>(who: &Who, ground: &Ground<'a>) -> Result<&'a Task, Refusal> {
    let all = |means: &dyn Fn(&Task) -> bool| -> Vec<&'a Task> {
        ground.threads.iter().filter(|task| means(task)).collect()
    };
    let found = match who {
        Who::Main => all(&|task| task.tid == ground.pid),
        Who::Thread(tid) => all(&|task| task.tid == *tid),
        Who::Named(name) => {
            let kept = kept(name);
            match all(&|task| task.name.as_bytes() == kept) {
                whole if whole.is_empty() => all(&|task| task.name.as_bytes().starts_with(kept)),
                whole => whole,
            }
        }
        Who::Others => Vec::new(),
    };
    let labels = |tasks: &[&Task]| tasks.iter().map(|task| task.label()).collect();
    match found[..] {
        [task] => Ok(task),
        [] => {
            let threads = labels(&ground.threads.iter().collect::<Vec<_>>());
            Err(Refusal::NoThread { who: who.clone(), threads })
        }
        _ => Err(Refusal::Several { who: who.clone(), threads: labels(&found) }),
    }
}

fn kept(name: &str) -> &[u8] {
    &name.as_bytes()[..name.len().min(KEPT)]
}

/// Entries whose CPUs overlap.
fn shared(rules: &[Rule]) -> Vec<Refusal> {
    let pairs = rules
        .iter()
        .enumerate()
        .flat_map(|(index, first)| rules[index + 1..].iter().map(move |second| (first, second)));
    pairs
        .filter(|(first, second)| first.cpus.intersects(&second.cpus))
        .map(|(first, second)| Refusal::Shared {
            first: first.who.clone(),
            second: second.who.clone(),
            cpus: first.cpus.and(&second.cpus),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: u32 = 100;

    fn threads() -> Vec<Task> {
        let names =
            ["engine", "btc", "btc-book", "eth-book", "worker", "worker", "orderbook-encod"];
        let task = |(index, name): (usize, &&str)| Task {
            pid: PID,
            tid: PID + index as u32,
            name: (*name).to_owned(),
            ..Task::default()
        };
        names.iter().enumerate().map(task).collect()
    }

    /// The threads' numbers with their CPUs, or all refusals.
    fn assigned(map: &str, share: bool) -> Result<String, String> {
        let threads = threads();
        let online = CpuSet::first(8);
        let group = CpuSet::parse_list("0-6").unwrap_or_default();
        let cpuset = Some(("/group/cpuset.cpus.effective".to_owned(), group));
        let ground = Ground { pid: PID, threads: &threads, online: &online, cpuset };
        let map: Map = map.parse().map_err(|e: crate::placement::MapError| e.to_string())?;
        let join = |texts: Vec<String>, by: &str| texts.join(by);
        match assign(&map, &ground, share) {
            Ok(all) => {
                Ok(join(all.iter().map(|p| format!("{}:{}", p.task.tid, p.cpus)).collect(), " "))
            }
            Err(all) => Err(join(all.iter().map(ToString::to_string).collect(), "\n")),
        }
    }

    #[test]
    fn each_entry_finds_its_thread() {
        for (map, found) in [
            ("main=1", "100:1"),
            ("tid:104=2", "104:2"),
            // A whole name wins over the beginning of another.
            ("btc=3", "101:3"),
            ("btc-=3,eth=4", "102:3 103:4"),
            // As the kernel has cut it.
            ("orderbook-encoder=5", "106:5"),
            ("order=5", "106:5"),
            ("btc=3,*=0-1", "101:3 100:0-1 102:0-1 103:0-1 104:0-1 105:0-1 106:0-1"),
            ("*=0-6", "100:0-6 101:0-6 102:0-6 103:0-6 104:0-6 105:0-6 106:0-6"),
        ] {
            assert_eq!(assigned(map, false).as_deref(), Ok(found), "{map}");
        }
    }

    #[test]
    fn what_is_not_plain_is_refused_with_what_to_do() {
        for (map, why) in [
            ("xrp=1", "no thread is called xrp: the process has engine/100, btc/101"),
            ("tid:7=1", "no thread is called tid:7"),
            ("worker=1", "worker means 2 threads, worker/104, worker/105"),
            ("e=1", "e means 2 threads, engine/100, eth-book/103"),
            ("main=1,engine=2", "main and engine both mean thread engine/100"),
            ("btc=1,eth=1-2", "btc and eth would share CPUs 1"),
            ("btc=1,*=0-3", "btc and * would share CPUs 1"),
            ("btc=8-9", "btc: CPUs 8-9 are not online (online: 0-7)"),
            ("btc=6-7", "btc: CPUs 7 are outside the control group of the process, which has 0-6"),
        ] {
            let refused = assigned(map, false).unwrap_err();
            assert!(refused.contains(why), "{map}: {refused}");
        }
    }

    #[test]
    fn all_refusals_are_told_at_once() {
        let refused = assigned("xrp=9,btc=1,eth=1", false).unwrap_err();
        assert_eq!(refused.lines().count(), 3, "{refused}");
    }

    #[test]
    fn threads_share_a_cpu_where_that_is_wished() {
        assert_eq!(assigned("btc=1,eth=1", true).as_deref(), Ok("101:1 103:1"));
    }

    #[test]
    fn a_thread_that_the_kernel_ties_down_is_not_moved() {
        let bound = [Task { tid: 7, name: "migration/0".into(), bound: true, ..Task::default() }];
        let online = CpuSet::first(2);
        let ground = Ground { pid: 7, threads: &bound, online: &online, cpuset: None };
        let refused = assign(&"main=1".parse().unwrap(), &ground, false).unwrap_err();
        assert!(matches!(refused[..], [Refusal::Bound { .. }]), "{refused:?}");
    }
}
