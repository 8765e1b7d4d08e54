//! Locked and prefaulted memory, and the node it comes from.
