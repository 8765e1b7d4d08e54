//! TLS: the handshake is rustls's, the record path our own.
