//! Who listens to what, and what waits for each.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::source::Event;
use super::stream::Stream;
use super::wake::Wake;

/// Locks; a thread that panicked holding the lock left nothing half-done here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client of the market.
#[derive(Debug)]
pub(super) struct Member {
    streams: Mutex<HashSet<Stream>>,
    queue: Mutex<VecDeque<Arc<Event>>>,
    room: Condvar,
    capacity: usize,
    has_overflowed: AtomicBool,
    has_left: AtomicBool,
    pub(super) wake: Arc<Wake>,
}

impl Member {
    pub(super) fn new(capacity: usize, wake: Arc<Wake>) -> Self {
        Self {
            streams: Mutex::default(),
            queue: Mutex::default(),
            room: Condvar::new(),
            capacity: capacity.max(1),
            has_overflowed: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            wake,
        }
    }

    /// Takes up to `most` events into `out`.
    pub(super) fn take(&self, most: usize, out: &mut Vec<Arc<Event>>) {
        let mut queue = lock(&self.queue);
        let count = most.min(queue.len());
        out.extend(queue.drain(..count));
        self.room.notify_all();
    }

    /// Whether something waits to be taken.
    pub(super) fn has_events(&self) -> bool {
        !lock(&self.queue).is_empty()
    }

    /// Whether events were lost because they were not taken in time.
    pub(super) fn has_overflowed(&self) -> bool {
        self.has_overflowed.load(Ordering::Acquire)
    }

    /// Whether the market has to wait for it.
    fn is_full(&self) -> bool {
        !self.has_left.load(Ordering::Acquire) && lock(&self.queue).len() >= self.capacity
    }

    fn push(&self, event: &Arc<Event>) {
        if !lock(&self.streams).contains(&event.stream) {
            return;
        }
        let mut queue = lock(&self.queue);
        if queue.len() >= self.capacity {
            self.has_overflowed.store(true, Ordering::Release);
        } else {
            queue.push_back(Arc::clone(event));
        }
        let is_first = queue.len() == 1;
        drop(queue);
        if is_first || self.has_overflowed() {
            self.wake.wake();
        }
    }
}

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Hub {
    members: Mutex<Vec<Arc<Member>>>,
    changed: Condvar,
    changes: AtomicU64,
}

impl Hub {
    /// Changes what a member listens to; it becomes one with its first stream.
    pub(super) fn listen(&self, member: &Arc<Member>, streams: HashSet<Stream>) {
        let mut members = lock(&self.members);
        *lock(&member.streams) = streams;
        if !members.iter().any(|other| Arc::ptr_eq(other, member)) {
            members.push(Arc::clone(member));
        }
        self.changes.fetch_add(1, Ordering::Release);
        self.changed.notify_all();
    }

    pub(super) fn leave(&self, member: &Arc<Member>) {
        member.has_left.store(true, Ordering::Release);
        member.room.notify_all();
        lock(&self.members).retain(|other| !Arc::ptr_eq(other, member));
        self.changes.fetch_add(1, Ordering::Release);
        self.changed.notify_all();
    }

    /// How often who listens to what has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// What anyone listens to.
    pub(super) fn wanted(&self) -> HashSet<Stream> {
        let members = lock(&self.members);
        members.iter().flat_map(|member| lock(&member.streams).clone()).collect()
    }

    /// How many listen to something.
    pub(super) fn listeners(&self) -> usize {
        lock(&self.members).iter().filter(|member| !lock(&member.streams).is_empty()).count()
    }

    /// Waits until someone comes, goes or listens to something else, or for so long.
    pub(super) fn wait(&self, most: Duration) {
        drop(self.changed.wait_timeout(lock(&self.members), most));
    }

    /// Hands an event to all who listen to it.
    pub(super) fn publish(&self, event: &Arc<Event>) {
        for member in lock(&self.members).iter() {
            member.push(event);
        }
    }

    /// Waits for a member that has no room, for so long at most. Returns whether all have room.
    pub(super) fn has_room(&self, most: Duration) -> bool {
        let full = lock(&self.members).iter().find(|member| member.is_full()).map(Arc::clone);
        let Some(member) = full else { return true };
        let queue = lock(&member.queue);
        if queue.len() >= member.capacity {
            drop(member.room.wait_timeout(queue, most));
        }
        false
    }

    /// Wakes every member's thread.
    pub(super) fn wake(&self) {
        for member in lock(&self.members).iter() {
            member.wake.wake();
        }
        self.changed.notify_all();
    }
}
