//! What goes wrong with a connection on purpose.

use std::io;
use std::time::Instant;

use tungstenite::Bytes;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};

use super::{End, PATIENCE, Socket};
use crate::server::fault::Fault;

impl Socket<'_> {
    /// A message in three fragments, a ping after the first.
    pub(super) fn fragments(&mut self, text: &str) {
        let third = text.len() / 3;
        let parts = [text.get(..third), text.get(third..2 * third), text.get(2 * third..)];
        for (index, part) in parts.into_iter().enumerate() {
            let opcode = if index == 0 { Data::Text } else { Data::Continue };
            let part = Bytes::from(part.unwrap_or("").to_owned().into_bytes());
            self.frame(Frame::message(part, OpCode::Data(opcode), index == 2));
            if index == 0 {
                self.ping("between".into());
            }
        }
    }

    pub(super) fn go_wrong(&mut self, fault: Fault) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        match fault {
            Fault::Drop => self.end = Some(End::Cut),
            Fault::Close(code, reason) => self.close(code, &reason),
            Fault::HalfClose => {
                self.flush(until)?;
                self.wire().half_close();
            }
            Fault::PingFlood(count) => {
                for number in 0..count {
                    self.ping(format!("flood {number}"));
                }
            }
            Fault::Slow(per_second) => self.wire().slow_to(per_second),
            Fault::Silence(time) => self.silent_until = Some(Instant::now() + time),
            Fault::Garbage => self.say(r#"{"e":"depthUpdate","E":17,"s":"#.into()),
            Fault::BadText => {
                let bytes = Bytes::from_static(b"{\"e\":\"\xff\xfe\"}");
                self.frame(Frame::message(bytes, OpCode::Data(Data::Text), true));
            }
            Fault::Oversize(size) => {
                let filler = "x".repeat(size.saturating_sub(r#"{"e":""}"#.len()));
                self.say(format!("{{\"e\":\"{filler}\"}}"));
            }
            // RFC 6455 section 5.1: a client must close the connection.
            Fault::Masked => {
                io::Write::write_all(self.wire(), b"\x81\x82\x01\x02\x03\x04\x7a\x7f")?;
            }
            Fault::KeyUpdate => {
                self.wire().seal()?;
                // TLS 1.2 has none: then nothing goes wrong.
                let _ = self.wire().update_keys();
            }
            Fault::Corrupt => {
                self.flush(until)?;
                self.wire().spoil_next();
            }
            // Those about events were dealt with by the injector.
            Fault::Gap(_)
            | Fault::Duplicate(_)
            | Fault::Reorder(_)
            | Fault::Fragment(_)
            | Fault::Crossed(_)
            | Fault::WrongChecksum(_) => {}
        }
        Ok(())
    }
}
