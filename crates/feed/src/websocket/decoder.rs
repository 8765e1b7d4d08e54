//! Frames in, messages out.

use super::head::{HEAD_LIMIT, Head, needed};
use super::{CONTROL_LIMIT, Incoming, Opcode, ProtocolError, Role, mask as unmask};

/// Whether messages of text are checked to be UTF-8. A close frame's reason always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Utf8 {
    /// As RFC 6455, 8.1, demands: at the end of each frame.
    #[default]
    Check,
    /// Left to whoever reads the text. For JSON that is compared and scanned as bytes: the bytes
    /// above ASCII can only stand within strings, where none of them is mistaken for another.
    /// The check takes longer than all else that a message costs here: see `quietcore feed bench`.
    Trust,
}

/// What a decoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message, in bytes, all its fragments together. A longer one is an error as soon
    /// as a head announces it.
    pub message: usize,
    /// Memory asked for at once, in bytes, for messages that do not come whole within one read.
    /// A longer message makes it grow, by what really came and not by what was announced.
    pub buffer: usize,
    /// Whether text is checked.
    pub utf8: Utf8,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message: 4 << 20, buffer: 256 << 10, utf8: Utf8::Check }
    }
}

/// Reads frames (RFC 6455, 5 and 7) out of bytes that come in pieces of any size.
///
/// The events and the error that follow from a stream of bytes do not depend on where it was cut.
/// After an error, or after a close frame, the rest of the stream means nothing.
///
/// ```
/// use quietcore_feed::websocket::{Decoder, Incoming, Limits};
///
/// let mut decoder = Decoder::new(Limits::default());
/// let mut read: &[u8] = b"\x81\x05Hello\x89\x00\x81\x05Hel";
/// assert_eq!(decoder.next(&mut read), Ok(Some(Incoming::Text(b"Hello"))));
/// assert_eq!(decoder.next(&mut read), Ok(Some(Incoming::Ping(b""))));
/// assert_eq!(decoder.next(&mut read), Ok(None));
/// ```
#[derive(Debug)]
pub struct Decoder {
    role: Role,
    limits: Limits,
    /// A client between two frames and two messages: the next frame may be lent from the input.
    is_idle: bool,
    end: Option<End>,
    /// The first bytes of a head that has not come whole.
    head: [u8; HEAD_LIMIT],
    held: usize,
    /// A frame whose payload has not come whole.
    frame: Option<Frame>,
    /// What the fragmented message is that has not ended.
    begun: Option<Opcode>,
    /// Its payload, or that of one frame.
    message: Vec<u8>,
    /// How much of `message` is known to be UTF-8.
    checked: usize,
    /// `message` was lent to the caller by the last call.
    is_lent: bool,
    control: Vec<u8>,
}

/// Why nothing more is read.
#[derive(Clone, Copy, Debug)]
enum End {
    Closed,
    Failed(ProtocolError),
}

/// What the longer way came to.
#[derive(Clone, Copy, Debug)]
enum Found {
    Nothing,
    Frame(Opcode),
    Error(ProtocolError),
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    head: Head,
    /// Bytes of payload in all.
    length: usize,
    /// Of which still to come.
    left: usize,
}

/// Where a payload that has come whole is.
#[derive(Clone, Copy, Debug)]
enum Payload<'i> {
    Input(&'i [u8]),
    Message,
    Control,
}

impl Decoder {
    /// A client's decoder.
    pub fn new(limits: Limits) -> Self {
        Self::with_role(Role::Client, limits)
    }

    /// The decoder of either end. A server's copies every payload, to unmask it.
    pub fn with_role(role: Role, limits: Limits) -> Self {
        Self {
            role,
            limits,
            is_idle: role == Role::Client,
            end: None,
            head: [0; HEAD_LIMIT],
            held: 0,
            frame: None,
            begun: None,
            message: Vec::with_capacity(limits.buffer.min(limits.message)),
            checked: 0,
            is_lent: false,
            control: Vec::with_capacity(CONTROL_LIMIT),
        }
    }

    /// Whether the last call left off within a frame or between the fragments of a message.
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.held > 0 || self.frame.is_some() || self.begun.is_some()
    }

    /// The next message or control frame; none when the input is used up. Takes off the input what
    /// it has read. To be called until the input is empty or there is none.
    ///
    /// # Errors
    ///
    /// The same from then on: see [`ProtocolError`] for what to do.
    // Always: a call hands its result over through memory, in pieces that no longer fit each other,
    // which takes as long as all that a short message costs here.
    #[inline(always)]
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Incoming<'a>>, ProtocolError> {
        if self.is_idle {
            if let Some((is_text, payload, rest)) = whole_message(input, self.limits.message) {
                if is_text && self.limits.utf8 == Utf8::Check && !is_utf8(payload) {
                    return Err(self.fail(ProtocolError::TextNotUtf8));
                }
                *input = rest;
                return Ok(Some(if is_text {
                    Incoming::Text(payload)
                } else {
                    Incoming::Binary(payload)
                }));
            }
        }
        let mut found = Found::Nothing;
        let payload = self.next_of_any(input, &mut found);
        match found {
            Found::Nothing => Ok(None),
            Found::Frame(opcode) => Ok(Some(incoming(opcode, payload))),
            Found::Error(error) => Err(error),
        }
    }

    /// As `next`, for everything that is not one whole short message. Does not return `next`'s
    /// result itself: that would take both ways through memory, which costs the short one as much
    /// again as all it does.
    #[inline(never)]
    fn next_of_any<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8], found: &mut Found) -> &'a [u8] {
        match self.end {
            Some(End::Failed(error)) => {
                *found = Found::Error(error);
                return &[];
            }
            Some(End::Closed) => {
                *input = &[];
                return &[];
            }
            None => {}
        }
        let read = self.read(input);
        if let Err(error) = read {
            *found = Found::Error(self.fail(error));
            return &[];
        }
        self.is_idle = self.role == Role::Client
            && self.end.is_none()
            && self.held == 0
            && self.frame.is_none()
            && self.begun.is_none();
        let Ok(Some((opcode, payload))) = read else { return &[] };
        *found = Found::Frame(opcode);
        match payload {
            Payload::Input(bytes) => bytes,
            Payload::Message => &self.message,
            Payload::Control => &self.control,
        }
    }

    fn fail(&mut self, error: ProtocolError) -> ProtocolError {
        self.end = Some(End::Failed(error));
        self.is_idle = false;
        error
    }

    /// Reads frames until a message or a control frame is whole.
    fn read<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<(Opcode, Payload<'i>)>, ProtocolError> {
        if std::mem::take(&mut self.is_lent) {
            self.message.clear();
        }
        loop {
            let frame = match self.frame.take() {
                Some(frame) => frame,
                None => match self.read_head(input)? {
                    Some(head) => self.begin(head)?,
                    None => return Ok(None),
                },
            };
            let Some(payload) = self.read_payload(frame, input) else { return Ok(None) };
            let Head { fin, opcode, .. } = frame.head;
            if opcode.is_control() {
                if opcode == Opcode::Close {
                    check_close(self.control_bytes(payload))?;
                    self.end = Some(End::Closed);
                }
                return Ok(Some((opcode, payload)));
            }
            let kind = self.begun.unwrap_or(opcode);
            self.check_text(kind, payload, fin)?;
            if fin {
                self.begun = None;
                self.is_lent = matches!(payload, Payload::Message);
                return Ok(Some((kind, payload)));
            }
            self.begun = Some(kind);
        }
    }

    /// The next head; none where bytes are missing, those that came being kept.
    fn read_head(&mut self, input: &mut &[u8]) -> Result<Option<Head>, ProtocolError> {
        if self.held == 0 {
            if let Some((head, size)) = Head::parse(input, self.role)? {
                *input = &input[size..];
                return Ok(Some(head));
            }
        }
        loop {
            let missing = needed(&self.head[..self.held]) - self.held;
            let taken = missing.min(input.len());
            let (now, rest) = input.split_at(taken);
            self.head[self.held..self.held + taken].copy_from_slice(now);
            self.held += taken;
            *input = rest;
            if taken < missing {
                return Ok(None);
            }
            if let Some((head, _)) = Head::parse(&self.head[..self.held], self.role)? {
                self.held = 0;
                return Ok(Some(head));
            }
        }
    }

    /// Checks a head against what came before it.
    fn begin(&mut self, head: Head) -> Result<Frame, ProtocolError> {
        let mut before = 0;
        if head.opcode.is_control() {
            self.control.clear();
        } else {
            match (head.opcode, self.begun) {
                (Opcode::Continuation, None) => return Err(ProtocolError::NothingToContinue),
                (Opcode::Continuation, _) | (_, None) => before = self.message.len() as u64,
                _ => return Err(ProtocolError::MessageNotEnded),
            }
        }
        let total = before.saturating_add(head.length);
        let limit = if head.opcode.is_control() { CONTROL_LIMIT } else { self.limits.message };
        let too_long = ProtocolError::TooLong { length: total, limit };
        let length = usize::try_from(head.length).map_err(|_| too_long)?;
        if total > limit as u64 {
            return Err(too_long);
        }
        Ok(Frame { head, length, left: length })
    }

    /// A frame's payload, unmasked; none where bytes are missing, those that came being kept.
    fn read_payload<'i>(&mut self, mut frame: Frame, input: &mut &'i [u8]) -> Option<Payload<'i>> {
        let Head { fin, opcode, mask, .. } = frame.head;
        let is_control = opcode.is_control();
        let is_alone = is_control || fin && self.begun.is_none();
        if is_alone && mask.is_none() && frame.left == frame.length && input.len() >= frame.length {
            let (payload, rest) = input.split_at(frame.length);
            *input = rest;
            return Some(Payload::Input(payload));
        }
        let kept = if is_control { &mut self.control } else { &mut self.message };
        let (now, rest) = input.split_at(frame.left.min(input.len()));
        kept.extend_from_slice(now);
        *input = rest;
        frame.left -= now.len();
        if frame.left > 0 {
            self.frame = Some(frame);
            return None;
        }
        if let Some(mask) = mask {
            let start = kept.len() - frame.length;
            unmask(&mut kept[start..], mask);
        }
        Some(if is_control { Payload::Control } else { Payload::Message })
    }

    /// Checks what a frame has added to a message of text. The last character of a fragment may be
    /// cut off, that of a message not (RFC 6455, 5.6).
    fn check_text(
        &mut self,
        kind: Opcode,
        payload: Payload<'_>,
        fin: bool,
    ) -> Result<(), ProtocolError> {
        if kind != Opcode::Text || self.limits.utf8 == Utf8::Trust {
            return Ok(());
        }
        let unchecked = match payload {
            Payload::Input(bytes) => bytes,
            _ => &self.message[self.checked..],
        };
        match std::str::from_utf8(unchecked) {
            Ok(text) => self.checked += text.len(),
            Err(error) if error.error_len().is_none() && !fin => {
                self.checked += error.valid_up_to();
            }
            Err(_) => return Err(ProtocolError::TextNotUtf8),
        }
        if fin {
            self.checked = 0;
        }
        Ok(())
    }

    fn control_bytes<'b>(&'b self, payload: Payload<'b>) -> &'b [u8] {
        if let Payload::Input(bytes) = payload { bytes } else { &self.control }
    }
}

/// A message of one unmasked frame shorter than 64 KiB that lies whole in the input: whether it is
/// text, its payload, and the input after it. Everything else is for the longer way.
#[inline]
fn whole_message(input: &[u8], limit: usize) -> Option<(bool, &[u8], &[u8])> {
    let (length, rest) = match *input {
        [0x81 | 0x82, length @ 0..126, ref rest @ ..] => (usize::from(length), rest),
        [0x81 | 0x82, 126, high, low, ref rest @ ..] => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length < 126 {
                return None;
            }
            (length, rest)
        }
        _ => return None,
    };
    if length > limit {
        return None;
    }
    let (payload, rest) = rest.split_at_checked(length)?;
    Some((input[0] == 0x81, payload, rest))
}

/// Market data is ASCII nearly always, which is cheaper to see than UTF-8.
#[inline]
fn is_utf8(bytes: &[u8]) -> bool {
    bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()
}

/// A close frame's payload (RFC 6455, 5.5.1 and 7.4). The codes that may be sent are those of the
/// RFC, those registered since (1012 to 1014) and those left to libraries and applications.
fn check_close(payload: &[u8]) -> Result<(), ProtocolError> {
    match *payload {
        [] => Ok(()),
        [_] => Err(ProtocolError::CloseOfOneByte),
        [high, low, ref reason @ ..] => {
            let code = u16::from_be_bytes([high, low]);
            if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                return Err(ProtocolError::CloseCode(code));
            }
            std::str::from_utf8(reason).map(drop).map_err(|_| ProtocolError::ReasonNotUtf8)
        }
    }
}

#[inline]
fn incoming(opcode: Opcode, payload: &[u8]) -> Incoming<'_> {
    match opcode {
        Opcode::Text => Incoming::Text(payload),
        Opcode::Continuation | Opcode::Binary => Incoming::Binary(payload),
        Opcode::Ping => Incoming::Ping(payload),
        Opcode::Pong => Incoming::Pong(payload),
        Opcode::Close => match *payload {
            [high, low, ref reason @ ..] => {
                Incoming::Close { code: Some(u16::from_be_bytes([high, low])), reason }
            }
            _ => Incoming::Close { code: None, reason: &[] },
        },
    }
}
