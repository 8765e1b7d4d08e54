//! Stacks that programs kept by number: `include/stacks.h`.

use std::collections::BTreeMap;
use std::fmt;

use libbpf_rs::{MapCore, MapFlags};
use serde::Serialize;

use crate::wire::Bytes;
use crate::{BpfError, loader};

/// Numbers that are no stack.
const NO_STACK: u64 = 0;
const LOST_STACK: u64 = 1;
/// The first of a program's own counters.
pub(crate) const FIRST_OWN_COUNTER: u32 = 4;

/// Where a thread was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stack {
    /// It has none of this kind, or it was not asked for.
    None,
    /// There was no room to keep it.
    Lost,
    /// Addresses, innermost first.
    Frames(Vec<u64>),
}

impl Stack {
    /// The addresses that are known.
    pub fn frames(&self) -> &[u64] {
        match self {
            Self::Frames(frames) => frames,
            Self::None | Self::Lost => &[],
        }
    }
}

/// What was lost, since the programs were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Stacks for which there was no room; their time is counted under a stack called lost.
    pub stacks: u64,
    /// Entries for which there was no room; their time is not counted at all.
    pub sums: u64,
    /// Stacks that were taken for another one.
    pub collisions: u64,
    /// Stacks deeper than what is kept: the outermost frames are missing.
    pub cut: u64,
}

impl Losses {
    pub(crate) fn read(counters: &impl MapCore) -> Result<Self, BpfError> {
        Ok(Self {
            stacks: counter(counters, 0)?,
            sums: counter(counters, 1)?,
            collisions: counter(counters, 2)?,
            cut: counter(counters, 3)?,
        })
    }
}

/// One counter of all CPUs.
pub(crate) fn counter(counters: &impl MapCore, which: u32) -> Result<u64, BpfError> {
    Ok(loader::sums(counters, which)?.first().copied().unwrap_or_default())
}

/// The stacks read so far.
pub(crate) struct Shelf<'a, M> {
    map: &'a M,
    read: BTreeMap<u64, Stack>,
}

impl<M> fmt::Debug for Shelf<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("read", &self.read.len()).finish_non_exhaustive()
    }
}

impl<'a, M: MapCore> Shelf<'a, M> {
    pub fn new(map: &'a M) -> Self {
        let known = [(NO_STACK, Stack::None), (LOST_STACK, Stack::Lost)];
        Self { map, read: known.into() }
    }

    /// The stack of this number.
    pub fn stack(&mut self, number: u64) -> Result<Stack, BpfError> {
        if let Some(stack) = self.read.get(&number) {
            return Ok(stack.clone());
        }
        let doing = "reading stacks";
        let found = self
            .map
            .lookup(&number.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| BpfError::Libbpf { doing, error })?;
        let stack = found.map_or(Stack::Lost, |bytes| {
            let mut bytes = Bytes(&bytes, 0);
            let (frames, _check) = (bytes.u32(), bytes.u32());
            Stack::Frames((0..frames).map(|_| bytes.u64()).collect())
        });
        self.read.insert(number, stack.clone());
        Ok(stack)
    }
}
