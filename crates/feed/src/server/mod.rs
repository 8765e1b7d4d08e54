//! A venue to connect to: recorded or generated markets over real TLS and WebSocket.
