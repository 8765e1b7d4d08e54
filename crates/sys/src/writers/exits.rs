//! The tasks that have ended lately, by the records that the kernel leaves (taskstats).
//!
//! A task writes its record on its way out, before its pid can be had by another: who finds
//! `/proc/PID` empty finds the record. The records wait in a socket until somebody asks, so that
//! listening wakes nobody up.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

/// A task that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its thread id; the pid for a process's first thread.
    pub tid: u32,
    /// The process that would have been told; 0 if none.
    pub parent: u32,
    /// The command's name, at most 15 bytes.
    pub comm: String,
    /// When it was started, in seconds since 1970.
    pub started_unix_s: u32,
}

/// Listens to the ends of tasks.
#[derive(Debug)]
pub struct Exits {
    socket: File,
    /// The latest, oldest first.
    ended: VecDeque<Exit>,
}

/// Far fewer than there are pids (32,768 at least), so that no two of them are of the same pid;
/// about what the socket holds.
const KEPT: usize = 4096;
const SOCKET_BYTES: libc::c_int = 4 << 20;
/// More than any datagram of these families.
const DATAGRAM: usize = 16 << 10;

const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;

// linux/taskstats.h
const FAMILY_NAME: &[u8] = b"TASKSTATS\0";
const GET: u8 = 1;
const NEW: u8 = 2;
const REGISTER_CPUMASK: u16 = 3;
const TYPE_PID: u16 = 1;
const TYPE_STATS: u16 = 3;
const TYPE_AGGR_PID: u16 = 4;
// In `struct taskstats`.
const COMM: usize = 80;
const COMM_BYTES: usize = 32;
const PID: usize = 128;
const PARENT: usize = 132;
const STARTED: usize = 136;

impl Exits {
    /// Starts to listen on all CPUs; needs CAP_NET_ADMIN, outside of containers.
    pub(super) fn listen() -> io::Result<Self> {
        let mut socket = socket()?;
        let name = attribute(libc::CTRL_ATTR_FAMILY_NAME as u16, FAMILY_NAME);
        let control = (libc::GENL_ID_CTRL as u16, libc::CTRL_CMD_GETFAMILY as u8);
        let answer = ask(&mut socket, control, &name)?;
        let family = Messages(&answer)
            .filter_map(|message| {
                message.attribute(libc::CTRL_ATTR_FAMILY_ID as u16)?.first_chunk()
            })
            .next();
        let family = u16::from_ne_bytes(*family.ok_or(io::ErrorKind::InvalidData)?);
        let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let cpus = [cpus.trim().as_bytes(), &[0]].concat();
        ask(&mut socket, (family, GET), &attribute(REGISTER_CPUMASK, &cpus))?;
        Ok(Self { socket, ended: VecDeque::new() })
    }

    /// Takes over what has queued up.
    pub(super) fn drain(&mut self) {
        let mut buffer = vec![0; DATAGRAM];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(length) => self.ended.extend(parse(&buffer[..length])),
                // Some are missing: an older one of the same pid must not stand in for them.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.ended.clear(),
                Err(_) => break,
            }
            let surplus = self.ended.len().saturating_sub(KEPT);
            self.ended.drain(..surplus);
        }
    }

    /// The latest task of that id, as far as it is still known.
    pub(super) fn find(&self, tid: i32) -> Option<&Exit> {
        self.ended.iter().rev().find(|exit| i64::from(exit.tid) == i64::from(tid))
    }
}

/// The tasks that ended, by one datagram of the kernel's.
pub fn parse(datagram: &[u8]) -> Vec<Exit> {
    Messages(datagram).filter(|message| message.command() == Some(NEW)).filter_map(exit).collect()
}

/// A task's record; one whose layout is not the usual has no pid where it should be.
fn exit(message: Message) -> Option<Exit> {
    let both = Attributes(message.attribute(TYPE_AGGR_PID)?);
    let [tid, record] = [TYPE_PID, TYPE_STATS].map(|kind| both.find(kind));
    let (tid, record) = (word(tid?, 0)?, record?);
    if word(record, PID)? != tid {
        return None;
    }
    let comm = record[COMM..][..COMM_BYTES].split(|&byte| byte == 0).next()?;
    Some(Exit {
        tid,
        parent: word(record, PARENT)?,
        comm: String::from_utf8_lossy(comm).into_owned(),
        started_unix_s: word(record, STARTED)?,
    })
}

fn socket() -> io::Result<File> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else owns it; the option is
    // an integer of the size that is told.
    unsafe {
        let bytes = SOCKET_BYTES;
        let (value, size) = ((&raw const bytes).cast(), size_of_val(&bytes) as libc::socklen_t);
        // Should it be refused, fewer of the ended are known: no reason to know none.
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, size);
        Ok(File::from_raw_fd(fd))
    }
}

/// Sends a request; what is answered before the kernel's acknowledgement, which it queues before
/// the sending returns.
fn ask(socket: &mut File, (kind, command): (u16, u8), attribute: &[u8]) -> io::Result<Vec<u8>> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    let length = (HEADER + GENERIC_HEADER + attribute.len()) as u32;
    let mut request = length.to_ne_bytes().to_vec();
    request.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend(attribute);
    socket.write_all(&request)?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let length = socket.read(&mut buffer)?;
        for message in Messages(&buffer[..length]) {
            if message.kind == libc::NLMSG_ERROR as u16 {
                return match word(message.body, 0).map(|code| code as i32) {
                    Some(0) => Ok(answer),
                    Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
                    None => Err(io::ErrorKind::InvalidData.into()),
                };
            }
        }
        answer.extend(&buffer[..length]);
    }
}

/// Length (2 bytes), kind (2), content, up to a multiple of 4.
fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    let length = (ATTRIBUTE_HEADER + content.len()) as u16;
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The messages of a datagram: length (4 bytes), kind (2), flags (2), sequence (4), sender (4);
/// then, of a generic one, command (1), version (1), reserved (2) and attributes.
struct Messages<'a>(&'a [u8]);

struct Message<'a> {
    kind: u16,
    body: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = word(self.0, 0)? as usize;
        let kind = half(self.0, 4)?;
        let body = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, body })
    }
}

impl<'a> Message<'a> {
    fn command(&self) -> Option<u8> {
        self.body.first().copied()
    }

    fn attribute(&self, kind: u16) -> Option<&'a [u8]> {
        Attributes(self.body.get(GENERIC_HEADER..)?).find(kind)
    }
}

struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    fn find(&self, wanted: u16) -> Option<&'a [u8]> {
        let mut rest = self.0;
        loop {
            let length = usize::from(half(rest, 0)?);
            let content = rest.get(ATTRIBUTE_HEADER..length)?;
            if half(rest, 2)? & libc::NLA_TYPE_MASK as u16 == wanted {
                return Some(content);
            }
            rest = rest.get(length.next_multiple_of(4)..)?;
        }
    }
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram as the kernel sends it for a task that ended.
    fn example() -> Vec<u8> {
        let mut record = vec![0; 416];
        record[COMM..COMM + 2].copy_from_slice(b"sh");
        for (offset, value) in [(PID, 4711u32), (PARENT, 4700), (STARTED, 1_800_000_000)] {
            record[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let both = [attribute(TYPE_PID, &4711u32.to_ne_bytes()), attribute(TYPE_STATS, &record)];
        let body = [vec![NEW, 1, 0, 0], attribute(TYPE_AGGR_PID, &both.concat())].concat();
        let mut datagram = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        datagram.extend(31u16.to_ne_bytes());
        datagram.extend([0; 10]);
        datagram.extend(body);
        datagram
    }

    #[test]
    fn a_task_that_ended_is_known_by_its_name_and_parent() {
        let expected =
            Exit { tid: 4711, parent: 4700, comm: "sh".to_owned(), started_unix_s: 1_800_000_000 };
        let two = [example(), example()].concat();
        assert_eq!(parse(&two), [expected.clone(), expected]);
    }

    #[test]
    fn a_record_of_another_layout_names_nobody() {
        let mut shifted = example();
        let place = shifted.len() - 416 + PID;
        shifted[place] ^= 1;
        assert!(parse(&shifted).is_empty());
    }

    #[test]
    fn a_cut_off_datagram_names_nobody() {
        let whole = example();
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_empty(), "{end}");
        }
    }

    #[test]
    fn the_latest_task_of_an_id_is_the_one() {
        let mut exits =
            Exits { socket: File::open("/dev/null").unwrap(), ended: parse(&example()).into() };
        exits.ended.push_back(Exit { comm: "tee".to_owned(), ..exits.ended[0].clone() });
        assert_eq!(exits.find(4711).unwrap().comm, "tee");
        assert_eq!(exits.find(4712), None);
    }
}
