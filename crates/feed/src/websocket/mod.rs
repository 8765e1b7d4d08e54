//! WebSocket (RFC 6455), a client's side, without I/O and without copies.
