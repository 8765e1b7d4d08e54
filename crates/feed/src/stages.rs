//! Where a message's time went.
