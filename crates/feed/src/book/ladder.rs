//! One side of a book: a window of prices as an array, and what is not in it as a list.

use crate::fixed::Fixed;

use super::spill::{self, Spill};

/// Prices in the window: 64 Ki ticks, 512 KiB of quantities.
pub(super) const WINDOW: usize = 1 << 16;
const WORDS: usize = WINDOW / 64;
/// Where in the window the best price is put. What is worse than the best is what a book has most
/// of; an eighth is left for it to get better.
const HOME: i64 = (WINDOW / 8 * 7) as i64;
/// The best price may drift so far without a new window.
const KEPT: std::ops::Range<i64> = (WINDOW / 2) as i64..(WINDOW / 16 * 15) as i64;
/// A tick so large that a window of it has no room in 64 bits is none.
const LARGEST_TICK: i64 = i64::MAX >> 18;
/// So few levels beside the window are not worth a new window, so many are in any case.
const FEW_SPILLS: u32 = 64;
const MANY_SPILLS: u32 = 4096;

/// Levels that can move with the window without asking for memory.
const ROOM: usize = 1 << 14;

/// A price as a side sorts it: the larger the better. Not the negative for asks: that of the
/// least number there is does not exist.
pub(super) type Key = i64;

/// One side's levels.
///
/// The window's slot of a key, its distance from the window's start in ticks, is found with one
/// multiplication instead of a division: `rotate(distance × odd⁻¹)`, where the tick is
/// `odd × 2^shift`, maps 64 bits one to one, and the multiples of the tick to their quotients
/// (Granlund and Montgomery, "Division by invariant integers", 1994, section 9). A result within
/// the window is therefore both on the grid and within the range, every other key is neither.
pub(super) struct Ladder {
    start: Key,
    inverse: u64,
    shift: u32,
    tick: i64,
    quantities: Box<[i64; WINDOW]>,
    /// A bit for every slot that holds a level, one for every word of these that is not zero, and
    /// again.
    words: Box<[u64; WORDS]>,
    summary: [u64; WORDS / 64],
    top: u64,
    /// Keys off the grid or beyond the window.
    spill: Spill,
    best_spilled: Option<Key>,
    /// Levels that went beside the window since it was placed, and those of them off the grid.
    spills: u32,
    off_grid: u32,
    /// What moves when the window does.
    moving: Vec<(Key, i64)>,
}

impl Ladder {
    /// Without a level. Every page of it is written to, so that no first touch waits for one.
    pub fn new(tick: Fixed) -> Self {
        let mut quantities = Vec::with_capacity(WINDOW);
        quantities.resize(WINDOW, 1);
        quantities.fill(0);
        let quantities: Result<Box<[i64; WINDOW]>, _> = quantities.into_boxed_slice().try_into();
        let mut ladder = Self {
            start: 0,
            inverse: 1,
            shift: 0,
            tick: 1,
            quantities: quantities.unwrap_or_else(|_| unreachable!("made of that length")),
            words: Box::new([0; WORDS]),
            summary: [0; WORDS / 64],
            top: 0,
            spill: Spill::new(),
            best_spilled: None,
            spills: 0,
            off_grid: 0,
            moving: Vec::with_capacity(ROOM),
        };
        ladder.set_tick(tick);
        ladder
    }

    fn set_tick(&mut self, tick: Fixed) {
        self.tick = if (1..=LARGEST_TICK).contains(&tick.0) { tick.0 } else { 1 };
        self.shift = self.tick.trailing_zeros();
        let odd = (self.tick >> self.shift) as u64;
        // Newton's iteration: each step doubles the right bits, three to begin with.
        self.inverse =
            (0..5).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))));
    }

    pub fn tick(&self) -> Fixed {
        Fixed(self.tick)
    }

    #[inline]
    fn slot(&self, key: Key) -> u64 {
        let distance = key.wrapping_sub(self.start) as u64;
        distance.wrapping_mul(self.inverse).rotate_right(self.shift)
    }

    /// A quantity of nothing, or less, takes the level away.
    #[inline]
    pub fn set(&mut self, key: Key, quantity: i64) {
        let slot = self.slot(key);
        if slot < WINDOW as u64 {
            self.mark(slot as usize, quantity.max(0));
        } else {
            self.set_spilled(key, quantity);
        }
    }

    /// The quantity there was is not looked at: a store does not wait for memory, a load does.
    #[inline]
    fn mark(&mut self, slot: usize, quantity: i64) {
        self.quantities[slot] = quantity;
        let (word, bit) = (slot / 64, slot % 64);
        let before = self.words[word];
        let after = before & !(1 << bit) | u64::from(quantity != 0) << bit;
        self.words[word] = after;
        if (before == 0) != (after == 0) {
            self.mark_word(word, after != 0);
        }
    }

    #[inline]
    fn mark_word(&mut self, word: usize, any: bool) {
        let (group, bit) = (word / 64, word % 64);
        self.summary[group] = self.summary[group] & !(1 << bit) | u64::from(any) << bit;
        self.top = self.top & !(1 << group) | u64::from(self.summary[group] != 0) << group;
    }

    #[cold]
    fn set_spilled(&mut self, key: Key, quantity: i64) {
        if quantity > 0 {
            self.spill.insert(key, quantity);
            self.best_spilled = self.best_spilled.max(Some(key));
        } else if !self.spill.remove(key) {
            return;
        } else if self.best_spilled == Some(key) {
            self.best_spilled = self.spill.best();
        }
        self.spills = self.spills.saturating_add(1);
        let end = self.start.saturating_add(self.tick.saturating_mul(WINDOW as i64));
        self.off_grid += u32::from((self.start..end).contains(&key));
    }

    #[inline]
    fn highest(&self) -> Option<usize> {
        let group = self.top.checked_ilog2()? as usize;
        let word = group * 64 + self.summary[group].checked_ilog2()? as usize;
        Some(word * 64 + self.words[word].checked_ilog2()? as usize)
    }

    fn key(&self, slot: usize) -> Key {
        self.start + slot as i64 * self.tick
    }

    #[inline]
    pub fn best(&self) -> Option<(Key, i64)> {
        let slot = self.highest();
        let key = slot.map(|slot| self.key(slot));
        match (slot, self.best_spilled) {
            (Some(slot), spilled) if key > spilled => Some((self.key(slot), self.quantities[slot])),
            (_, spilled) => spilled.map(|key| (key, self.spill.get(key))),
        }
    }

    pub fn len(&self) -> usize {
        let in_window: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        in_window as usize + self.spill.len()
    }

    pub fn clear(&mut self) {
        self.empty_window();
        self.spill.clear();
        self.best_spilled = None;
    }

    fn empty_window(&mut self) {
        for word in (0..WORDS).filter(|word| self.words[*word] != 0) {
            self.quantities[word * 64..][..64].fill(0);
        }
        self.words.fill(0);
        self.summary.fill(0);
        self.top = 0;
    }

    /// Best first.
    pub fn iter(&self) -> Iter<'_> {
        let word = WORDS;
        Iter { ladder: self, word, bits: 0, slot: None, spill: self.spill.iter() }.started()
    }

    /// Whether the best price has left the middle of the window, or too much passes it by.
    pub fn is_off_centre(&self) -> bool {
        self.spills > FEW_SPILLS && (self.spills > MANY_SPILLS || !self.is_best_home())
    }

    fn is_best_home(&self) -> bool {
        let distance = self.best().and_then(|(best, _)| best.checked_sub(self.start));
        distance.is_some_and(|distance| KEPT.contains(&(distance / self.tick)))
    }

    /// Whether so many prices were off the grid that its tick can hardly be right.
    pub fn is_off_grid(&self) -> bool {
        self.off_grid > MANY_SPILLS / 4
    }

    /// Puts the window where the best price is. `residue` is what the keys of prices on the grid
    /// leave when divided by the tick.
    pub fn place(&mut self, tick: Fixed, residue: i64) {
        (self.spills, self.off_grid) = (0, 0);
        let Some((best, _)) = self.best() else { return self.set_tick_of_empty(tick) };
        let mut moving = std::mem::take(&mut self.moving);
        moving.clear();
        moving.extend(self.iter());
        self.clear();
        self.set_tick(tick);
        self.start = self.start_for(best, residue);
        for (key, quantity) in moving.drain(..) {
            self.set(key, quantity);
        }
        self.moving = moving;
        (self.spills, self.off_grid) = (0, 0);
    }

    fn set_tick_of_empty(&mut self, tick: Fixed) {
        self.set_tick(tick);
        self.start = 0;
    }

    /// The window's first key: on the grid, and such that the last one still is a number.
    fn start_for(&self, best: Key, residue: i64) -> Key {
        let tick = i128::from(self.tick);
        let on_grid = |key: i128| key - (key - i128::from(residue)).rem_euclid(tick);
        let lowest = on_grid(i128::from(i64::MIN) + tick - 1);
        let highest = on_grid(i128::from(i64::MAX) - tick * (WINDOW as i128 - 1));
        let wanted = on_grid(i128::from(best)) - tick * i128::from(HOME);
        wanted.clamp(lowest, highest) as i64
    }
}

/// A side's levels as `(key, quantity)`, best first.
pub(super) struct Iter<'a> {
    ladder: &'a Ladder,
    /// The word that `bits` is what is left of.
    word: usize,
    bits: u64,
    slot: Option<usize>,
    spill: spill::Iter<'a>,
}

impl Iter<'_> {
    fn started(mut self) -> Self {
        self.slot = self.next_slot();
        self
    }

    fn next_slot(&mut self) -> Option<usize> {
        if self.bits == 0 {
            self.word = self.word_below(self.word)?;
            self.bits = self.ladder.words[self.word];
        }
        let bit = self.bits.ilog2();
        self.bits &= !(1 << bit);
        Some(self.word * 64 + bit as usize)
    }

    /// The next word with a level.
    fn word_below(&self, word: usize) -> Option<usize> {
        let below = |bits: u64, bit: usize| bits & ((1 << bit) - 1);
        let (group, bit) = (word / 64, word % 64);
        let in_group = self.ladder.summary.get(group).map_or(0, |bits| below(*bits, bit));
        if let Some(bit) = in_group.checked_ilog2() {
            return Some(group * 64 + bit as usize);
        }
        let group = below(self.ladder.top, group).checked_ilog2()? as usize;
        Some(group * 64 + self.ladder.summary[group].checked_ilog2()? as usize)
    }
}

impl Iterator for Iter<'_> {
    type Item = (Key, i64);

    fn next(&mut self) -> Option<(Key, i64)> {
        let key = self.slot.map(|slot| self.ladder.key(slot));
        let spilled = self.spill.peek().map(|(key, _)| key);
        match self.slot {
            Some(slot) if key > spilled => {
                self.slot = self.next_slot();
                key.map(|key| (key, self.ladder.quantities[slot]))
            }
            _ => self.spill.next(),
        }
    }
}
