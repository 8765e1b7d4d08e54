//! The recorder's memory, which programs write while we read.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use memmap2::{MmapOptions, MmapRaw};

use crate::wire::{CPU, EVENT, Event, What};

/// An interrupt overtakes what it interrupts by no more events than these.
const OVERTAKEN: u64 = 16;

/// Where `struct cpu` has `steal_at`, in words.
const STEAL_AT: usize = 6;

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
        self.word(cpu, 0)
    }

    /// Whether its hypervisor tells a CPU what it takes of it.
    pub fn hears_of_steal(&self, cpu: u32) -> bool {
        self.word(cpu, STEAL_AT) > 1
    }

    /// A word of `struct cpu`.
    fn word(&self, cpu: u32, number: usize) -> u64 {
        if cpu >= self.cpus {
            return 0;
        }
        let at = cpu as usize * CPU + number * size_of::<u64>();
        // SAFETY: the CPU is one of those that were mapped, and all its words are aligned.
        unsafe { ptr::read_volatile(self.heads.as_ptr().add(at).cast()) }
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

    /// What a CPU recorded in `[from, until]`, and a little more, after what says how things stood at
    /// `from`: who ran, and whether it idled and ticked. [`Batch::lost`] is not 0 where it is not
    /// known to be all since then.
    pub fn between(&self, cpu: u32, from: u64, until: u64) -> Batch {
        let head = self.head(cpu);
        let oldest = head.saturating_sub(self.slots) + 1;
        let first = self.first_since(cpu, oldest, head, from).saturating_sub(OVERTAKEN).max(oldest);
        let last = self.first_since(cpu, first, head, until.saturating_add(1)) + OVERTAKEN;
        let mut stood = Vec::new();
        for seq in (oldest..first).rev() {
            let Some(event) = self.event(cpu, seq) else { break };
            stood.extend(event.filter(|event| event.what.stands()));
            if stood.last().is_some_and(|event| matches!(event.what, What::Switch { .. })) {
                break;
            }
        }
        let mut batch = self.read(cpu, first - 1, last.min(head));
        batch.lost += u64::from(first == oldest && oldest > 1);
        if batch.lost == 0 {
            batch.events.splice(..0, stood.into_iter().rev());
        }
        batch
    }

    /// The first event since a moment: time grows with the number, except for the few that an
    /// interrupt overtakes.
    fn first_since(&self, cpu: u32, oldest: u64, head: u64, from: u64) -> u64 {
        let (mut low, mut high) = (oldest, head + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let since = match self.event(cpu, middle) {
                Some(Some(event)) => event.ts >= from,
                Some(None) => false,
                // Being written; or overwritten, and then old.
                None => head - middle < self.slots / 2,
            };
            match since {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    }

    /// What a CPU recorded after event number `last`.
    pub fn after(&self, cpu: u32, last: u64) -> Batch {
        self.read(cpu, last, self.head(cpu))
    }

    /// The events after number `last`, up to number `end`. One that is being written is left for the
    /// next time, with all that come after it; what came before one that was overwritten is lost, too,
    /// so that nothing is missing between those that are handed over.
    fn read(&self, cpu: u32, last: u64, end: u64) -> Batch {
        let oldest = end.saturating_sub(self.slots);
        let mut batch = Batch { last: last.max(oldest), ..Batch::default() };
        let mut whole_from = batch.last;
        while batch.last < end {
            match self.event(cpu, batch.last + 1) {
                Some(event) => batch.events.extend(event),
                None if self.head(cpu).saturating_sub(batch.last) > self.slots => {
                    batch.events.clear();
                    whole_from = batch.last + 1;
                }
                None => break,
            }
            batch.last += 1;
        }
        batch.lost = whole_from.saturating_sub(last);
        batch.left = end.saturating_sub(batch.last);
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
    /// How many were left for the next time: the first of them was being written.
    pub left: u64,
}

fn page() -> usize {
    // SAFETY: sysconf only reads.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
