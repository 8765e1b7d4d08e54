//! The recorder's memory, which programs write while we read.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use memmap2::{MmapOptions, MmapRaw};

use crate::wire::{CPU, EVENT, Event, What};

/// The rings of all CPUs, read-only.
#[derive(Debug)]
pub(crate) struct Rings {
    events: MmapRaw,
    heads: MmapRaw,
    slots: u64,
    cpus: u32,
}

impl Rings {
    pub fn map(
        events: &impl AsRawFd,
        heads: &impl AsRawFd,
        slots: u32,
        cpus: u32,
    ) -> io::Result<Self> {
        let of = |map: i32, bytes: usize| {
            MmapOptions::new().len(bytes.next_multiple_of(page())).map_raw_read_only(map)
        };
        Ok(Self {
            events: of(events.as_raw_fd(), slots as usize * cpus as usize * EVENT)?,
            heads: of(heads.as_raw_fd(), cpus as usize * CPU)?,
            slots: u64::from(slots),
            cpus,
        })
    }

    /// How many events a CPU has ever recorded.
    pub fn head(&self, cpu: u32) -> u64 {
        if cpu >= self.cpus {
            return 0;
        }
        // SAFETY: the CPU is one of those that were mapped, and the head is its first word, aligned.
        unsafe { ptr::read_volatile(self.heads.as_ptr().add(cpu as usize * CPU).cast()) }
    }

    /// Event number `seq` (from 1) of a CPU; `None` where it has been overwritten or is being written.
    fn event(&self, cpu: u32, seq: u64) -> Option<Option<Event>> {
        let slot = u64::from(cpu) * self.slots + ((seq - 1) & (self.slots - 1));
        let mut bytes = [0; EVENT];
        // SAFETY: the slot is within the map, for the CPU is one of those that were mapped; the
        // kernel may write at the same time, which the sequence number, read before and after,
        // reveals.
        let again = unsafe {
            let from = self.events.as_ptr().add(slot as usize * EVENT);
            if ptr::read_volatile(from.add(8).cast::<u32>()) != seq as u32 {
                return None;
            }
            for (i, byte) in bytes.chunks_exact_mut(8).enumerate() {
                let word: u64 = ptr::read_volatile(from.cast::<u64>().add(i));
                byte.copy_from_slice(&word.to_ne_bytes());
            }
            ptr::read_volatile(from.add(8).cast::<u32>())
        };
        let (found, event) = Event::decode(&bytes, cpu);
        (found == seq as u32 && again == found).then_some(event)
    }

    /// What a CPU recorded in `[from, until]`, oldest first, with what says how things stood at
    /// `from`: who ran, and whether it idled. And whether that is all: the oldest may have been
    /// overwritten.
    pub fn between(&self, cpu: u32, from: u64, until: u64) -> (Vec<Event>, bool) {
        let mut events = Vec::new();
        if cpu >= self.cpus {
            return (events, false);
        }
        let head = self.head(cpu);
        let oldest = head.saturating_sub(self.slots) + 1;
        let newest = self.last_until(cpu, oldest, head, until);
        // An interrupt may take its slot before what it interrupted is written.
        let (mut older, mut runner) = (0, false);
        let (mut begun, mut hole) = (false, false);
        for seq in (oldest..=newest).rev() {
            let event = match self.event(cpu, seq) {
                // The newest may be being written.
                None => {
                    hole |= begun;
                    continue;
                }
                Some(Some(event)) if event.ts <= until => event,
                Some(_) => continue,
            };
            begun = true;
            if event.ts >= from {
                events.push(event);
                continue;
            }
            older += 1;
            let stands = matches!(
                event.what,
                What::Switch { .. } | What::Idle { .. } | What::TickStop { .. }
            );
            runner |= matches!(event.what, What::Switch { .. });
            events.extend(stands.then_some(event));
            if older >= 4 && runner {
                break;
            }
        }
        events.sort_by_key(|event| event.ts);
        (events, !hole && (older >= 4 || oldest == 1))
    }
}

impl Rings {
    /// Up to which event those until a moment are found: time grows with the number, except for the
    /// few that an interrupt overtakes.
    fn last_until(&self, cpu: u32, oldest: u64, head: u64, until: u64) -> u64 {
        const OVERTAKEN: u64 = 16;
        let (mut low, mut high) = (oldest, head + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let later = match self.event(cpu, middle) {
                Some(Some(event)) => event.ts > until,
                Some(None) => false,
                // Being written; or overwritten, and then old.
                None => head - middle < self.slots / 2,
            };
            match later {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        head.min(low + OVERTAKEN)
    }

    /// What a CPU recorded after event number `last`. An event that is being written is left for
    /// the next time, with all that come after it.
    pub fn after(&self, cpu: u32, last: u64) -> Batch {
        let head = self.head(cpu);
        let oldest = head.saturating_sub(self.slots);
        let mut batch = Batch { last: last.max(oldest), ..Batch::default() };
        batch.lost = batch.last.saturating_sub(last);
        while batch.last < head {
            match self.event(cpu, batch.last + 1) {
                Some(event) => batch.events.extend(event),
                None if self.head(cpu).saturating_sub(batch.last) > self.slots => batch.lost += 1,
                None => break,
            }
            batch.last += 1;
        }
        batch
    }
}

/// What a CPU recorded after an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The events, in the order in which they were recorded.
    pub events: Vec<Event>,
    /// The number of the last event that was read: where to go on.
    pub last: u64,
    /// How many events had been overwritten.
    pub lost: u64,
}

fn page() -> usize {
    // SAFETY: sysconf only reads.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
