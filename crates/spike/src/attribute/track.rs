//! When the thread had a CPU, and which.

use quietcore_bpf::{Wait, What};

use super::scene::Scene;

/// A stretch in which the thread had a CPU, or had none.
#[derive(Debug)]
pub(super) struct Stretch<'a> {
    pub start: u64,
    pub end: u64,
    pub state: State<'a>,
}

#[derive(Debug)]
pub(super) enum State<'a> {
    On { cpu: u32 },
    Off(Off<'a>),
}

/// A whole wait, which may reach beyond the window.
#[derive(Debug, Default)]
pub(super) struct Off<'a> {
    /// When the thread left; where that was not seen, when it had last come back, or 0.
    pub out_ts: u64,
    /// When it came back; where that was not seen, when it was first seen at work again, and
    /// `u64::MAX` where it was not.
    pub in_ts: u64,
    pub out_cpu: Option<u32>,
    /// Where it came back; `None` where that was not seen.
    pub in_cpu: Option<u32>,
    /// Its state when it left, and whether it could have run on, where the switch was seen.
    pub left: Option<(u16, bool)>,
    /// Its priority.
    pub prio: Option<u16>,
    /// What was sent about it.
    pub wait: Option<&'a Wait>,
}

/// The window in stretches, without a hole.
pub(super) fn track<'a>(scene: &Scene<'a>) -> Vec<Stretch<'a>> {
    let (start, end) = (scene.window.start_ns, scene.window.end_ns);
    let mut stretches: Vec<Stretch<'_>> = Vec::new();
    let mut at = start;
    let mut cpu = None;
    for off in waits(scene) {
        let (from, to) = (off.out_ts.clamp(at, end.max(at)), off.in_ts.clamp(at, end.max(at)));
        if from > at {
            let on = cpu.or(off.out_cpu).unwrap_or(scene.window.cpu);
            stretches.push(Stretch { start: at, end: from, state: State::On { cpu: on } });
        }
        cpu = off.in_cpu;
        if to > from {
            stretches.push(Stretch { start: from, end: to, state: State::Off(off) });
        }
        at = to;
    }
    if at < end {
        let on = cpu.unwrap_or(scene.window.cpu);
        stretches.push(Stretch { start: at, end, state: State::On { cpu: on } });
    }
    stretches
}

/// The thread's waits, from its switches and from what was sent, in the order of time.
fn waits<'a>(scene: &Scene<'a>) -> Vec<Off<'a>> {
    let mut offs = switches(scene);
    let mine = |wait: &&Wait| wait.tid == scene.tid() && wait.out_ts <= wait.in_ts;
    for wait in scene.seen.waits.iter().filter(mine) {
        // The switch back carries the same time stamp, and so does the one away unless the sleep
        // was asked for; either may have been overwritten.
        let same = |off: &&mut Off<'_>| off.in_ts == wait.in_ts || off.out_ts == wait.out_ts;
        match offs.iter_mut().find(same) {
            Some(off) => {
                off.in_ts = wait.in_ts;
                off.in_cpu = Some(wait.in_cpu);
                off.out_cpu = Some(wait.out_cpu);
                if off.out_ts == 0 && !wait.flags.voluntary {
                    off.out_ts = wait.out_ts;
                }
                off.prio = u16::try_from(wait.prio).ok();
                off.wait = Some(wait);
            }
            None => offs.push(Off {
                out_ts: wait.out_ts,
                in_ts: wait.in_ts,
                out_cpu: Some(wait.out_cpu),
                in_cpu: Some(wait.in_cpu),
                left: None,
                prio: u16::try_from(wait.prio).ok(),
                wait: Some(wait),
            }),
        }
    }
    // Where switches were overwritten, those that are left say nothing about a wait that is known.
    for off in offs.iter_mut().filter(|off| off.wait.is_none()) {
        for wait in scene.seen.waits.iter().filter(mine) {
            match off.left {
                _ if wait.in_ts <= off.out_ts || off.in_ts <= wait.out_ts => {}
                None => off.out_ts = wait.in_ts.min(off.in_ts),
                Some(_) => off.in_ts = wait.out_ts.max(off.out_ts),
            }
        }
    }
    offs.sort_by_key(|off| (off.out_ts, off.wait.is_none()));
    offs
}

/// The thread's waits from its switches. A switch back may be missing: there are guests in which no
/// program runs while a thread of the first process has the CPU, so nothing that such a thread gives
/// way to is seen to come. Then the thread was away until it did something itself.
fn switches<'a>(scene: &Scene<'a>) -> Vec<Off<'a>> {
    let tid = scene.tid();
    let marks: Vec<_> = scene
        .own()
        .iter()
        .filter_map(|event| match event.what {
            What::Switch { from, to, .. } if from == to => None,
            What::Switch { from, state, preempt, .. } if from == tid => {
                Some((event.ts, event.cpu, Some((state, preempt || state & 0xff == 0)), None))
            }
            What::Switch { to, prio, .. } if to == tid => {
                Some((event.ts, event.cpu, None, Some(prio)))
            }
            _ => None,
        })
        .collect();
    let mut offs = Vec::new();
    let mut open: Option<Off<'_>> = None;
    for (n, (ts, cpu, left, prio)) in marks.into_iter().enumerate() {
        if left.is_some() {
            offs.extend(open.take().map(|off| unseen_back(scene, off, ts)));
            open = Some(Off {
                out_ts: ts,
                in_ts: u64::MAX,
                out_cpu: Some(cpu),
                left,
                ..Off::default()
            });
        } else if open.is_some() || n == 0 {
            let off = open.take().unwrap_or_default();
            offs.push(Off { in_ts: ts, in_cpu: Some(cpu), prio, ..off });
        }
    }
    offs.extend(open.map(|off| unseen_back(scene, off, u64::MAX)));
    offs
}

/// A wait whose end was not seen: until the thread did something, or was about to leave again.
fn unseen_back<'a>(scene: &Scene<'a>, off: Off<'a>, leaves: u64) -> Off<'a> {
    let own = scene.own().iter().filter(|event| !matches!(event.what, What::Switch { .. }));
    let works = own.map(|event| event.ts).find(|ts| *ts > off.out_ts).unwrap_or(u64::MAX);
    // A spinning thread looks at the clock at both ends of a window.
    let window = scene.window;
    let looks = [window.start_ns, window.end_ns].into_iter().filter(|_| window.spins);
    let looks = looks.filter(|ts| *ts > off.out_ts).min().unwrap_or(u64::MAX);
    Off { in_ts: leaves.min(works).min(looks), ..off }
}
