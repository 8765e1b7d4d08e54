//! The thread that owns the sockets.
