//! The records that a fanotify descriptor yields, taken apart.

/// One event. Its descriptors are raw, as the kernel wrote them: whoever decodes has to close them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened, as `FAN_…` bits.
    pub mask: u64,
    /// The file, open for reading; `None` where events name a directory's entry, and for overflow.
    pub file: Option<i32>,
    /// The process; 0 if it is outside this pid namespace.
    pub pid: i32,
    /// A descriptor of the process.
    pub pidfd: Pidfd,
    /// The directory's entry, where the group was asked for it.
    pub entry: Option<Entry>,
}

/// What an event says about its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pidfd {
    /// Nothing: an older kernel, or it could not make a descriptor.
    None,
    /// It has ended: `/proc/PID` is nobody's, or somebody else's by now.
    Ended,
    /// A descriptor, to be closed.
    Open(i32),
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The directory, as [`handle_key`] has it.
    pub folder: Vec<u8>,
    /// The name in it.
    pub name: Vec<u8>,
}

/// The kind and the bytes of a file handle in one.
pub fn handle_key(kind: i32, handle: &[u8]) -> Vec<u8> {
    [&kind.to_ne_bytes(), handle].concat()
}

const METADATA: usize = size_of::<libc::fanotify_event_metadata>();
const VERSION: u8 = libc::FANOTIFY_METADATA_VERSION;
/// Type (1 byte), padding (1) and length (2) of an information record, itself included.
const HEADER: usize = 4;

/// The events in what was read, and whether it was whole: `false` when the rest could not be
/// understood and some events are therefore missing.
pub fn decode(mut bytes: &[u8]) -> (Vec<Event>, bool) {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let Some((event, rest)) = first(bytes) else { return (events, false) };
        events.push(event);
        bytes = rest;
    }
    (events, true)
}

/// `struct fanotify_event_metadata`: length (4 bytes), version (1), reserved (1), length of itself
/// (2), mask (8), descriptor (4), pid (4); information records up to the length.
fn first(bytes: &[u8]) -> Option<(Event, &[u8])> {
    let length = u32::from_ne_bytes(at(bytes, 0)?) as usize;
    let [version] = at(bytes, 4)?;
    let records = u16::from_ne_bytes(at(bytes, 6)?) as usize;
    let (event, rest) = bytes.split_at_checked(length)?;
    if version != VERSION || records < METADATA || length < records {
        return None;
    }
    let file = i32::from_ne_bytes(at(event, 16)?);
    let mut decoded = Event {
        mask: u64::from_ne_bytes(at(event, 8)?),
        file: (file >= 0).then_some(file),
        pid: i32::from_ne_bytes(at(event, 20)?),
        pidfd: Pidfd::None,
        entry: None,
    };
    let mut records = &event[records..];
    while let (Some([kind, _]), Some(length)) = (at(records, 0), at(records, 2)) {
        let length = u16::from_ne_bytes(length) as usize;
        // A record that is not whole belongs to a later format: what is known by now still holds.
        let Some(record) = records.get(HEADER..length) else { break };
        match kind {
            libc::FAN_EVENT_INFO_TYPE_PIDFD => decoded.pidfd = pidfd(record),
            libc::FAN_EVENT_INFO_TYPE_DFID_NAME => decoded.entry = entry(record),
            _ => {}
        }
        records = &records[length..];
    }
    Some((decoded, rest))
}

fn pidfd(record: &[u8]) -> Pidfd {
    match at(record, 0).map(i32::from_ne_bytes) {
        Some(fd @ 0..) => Pidfd::Open(fd),
        Some(libc::FAN_NOPIDFD) => Pidfd::Ended,
        _ => Pidfd::None,
    }
}

/// The file system's id (8 bytes), `struct file_handle` (length, kind, bytes), the name and a NUL.
fn entry(record: &[u8]) -> Option<Entry> {
    let length = u32::from_ne_bytes(at(record, 8)?) as usize;
    let kind = i32::from_ne_bytes(at(record, 12)?);
    let (handle, name) = record.get(16..)?.split_at_checked(length)?;
    let end = name.iter().position(|&byte| byte == 0)?;
    Some(Entry { folder: handle_key(kind, handle), name: name[..end].to_vec() })
}

/// So many bytes from `offset` on.
fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind, 0];
        bytes.extend((content.len() as u16 + 4).to_ne_bytes());
        bytes.extend(content);
        bytes
    }

    fn event(mask: u64, file: i32, pid: i32, records: &[Vec<u8>]) -> Vec<u8> {
        let records = records.concat();
        let mut bytes = (24 + records.len() as u32).to_ne_bytes().to_vec();
        bytes.extend([VERSION, 0]);
        bytes.extend(24u16.to_ne_bytes());
        bytes.extend(mask.to_ne_bytes());
        bytes.extend(file.to_ne_bytes());
        bytes.extend(pid.to_ne_bytes());
        bytes.extend(records);
        bytes
    }

    fn named(name: &str) -> Vec<u8> {
        let mut content = vec![9; 8];
        content.extend(2u32.to_ne_bytes());
        content.extend(129i32.to_ne_bytes());
        content.extend([5, 6]);
        content.extend(name.as_bytes());
        content.extend([0, 0]);
        record(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, &content)
    }

    #[test]
    fn a_write_names_its_file_and_its_process() {
        let pidfd = record(libc::FAN_EVENT_INFO_TYPE_PIDFD, &7i32.to_ne_bytes());
        let (events, whole) = decode(&event(libc::FAN_MODIFY, 5, 42, &[pidfd]));
        assert!(whole);
        let expected =
            Event { mask: 2, file: Some(5), pid: 42, pidfd: Pidfd::Open(7), entry: None };
        assert_eq!(events, [expected]);
    }

    #[test]
    fn a_process_that_ended_is_told_from_one_without_a_descriptor() {
        for (fd, expected) in [(-1, Pidfd::Ended), (-2, Pidfd::None), (0, Pidfd::Open(0))] {
            let pidfd = record(libc::FAN_EVENT_INFO_TYPE_PIDFD, &i32::to_ne_bytes(fd));
            assert_eq!(decode(&event(2, 5, 42, &[pidfd])).0[0].pidfd, expected);
        }
        assert_eq!(decode(&event(2, 5, 42, &[])).0[0].pidfd, Pidfd::None);
    }

    #[test]
    fn an_entry_is_a_directory_and_a_name() {
        let (events, whole) = decode(&event(libc::FAN_MOVED_TO, -1, 42, &[named("a.conf")]));
        assert!(whole);
        assert_eq!(events[0].file, None);
        let entry = events[0].entry.as_ref().unwrap();
        assert_eq!(
            (entry.folder.as_slice(), entry.name.as_slice()),
            (&*handle_key(129, &[5, 6]), &b"a.conf"[..])
        );
    }

    #[test]
    fn records_of_unknown_kinds_are_skipped_and_several_events_told_apart() {
        let unknown = record(99, &[1, 2, 3, 4]);
        let pidfd = record(libc::FAN_EVENT_INFO_TYPE_PIDFD, &7i32.to_ne_bytes());
        let bytes = [event(2, 5, 1, &[unknown, pidfd]), event(libc::FAN_Q_OVERFLOW, -1, 0, &[])];
        let (events, whole) = decode(&bytes.concat());
        assert!(whole);
        assert_eq!(events[0].pidfd, Pidfd::Open(7));
        assert_eq!(
            (events[1].mask, events[1].file, events[1].pid),
            (libc::FAN_Q_OVERFLOW, None, 0)
        );
    }

    #[test]
    fn what_is_cut_off_or_of_another_version_is_said_to_be_missing() {
        let good = event(2, 5, 42, &[named("x")]);
        for end in 1..good.len() {
            let (events, whole) = decode(&good[..end]);
            assert!(events.is_empty() && !whole, "{end}");
        }
        let mut other = good.clone();
        other[4] = VERSION + 1;
        let (events, whole) = decode(&[good, other].concat());
        assert_eq!((events.len(), whole), (1, false));
        // A length of 0 must not keep us here for ever.
        assert!(!decode(&[0; 64]).1);
    }
}
