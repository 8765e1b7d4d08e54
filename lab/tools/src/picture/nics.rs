//! What network cards are set to, asked by netlink and kept as the bytes that the kernel answers.
//!
//! Nothing is understood but the frame and the card's name: whatever a card has to set is in there.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

use super::text::{Class, Entry};

/// What is asked of every card (linux/ethtool_netlink.h).
const QUESTIONS: &[(u8, &str)] =
    &[(11, "features"), (15, "rings"), (17, "channels"), (19, "coalescing"), (21, "pause")];

// linux/netlink.h, linux/genetlink.h, linux/ethtool_netlink.h
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x001;
const NLM_F_DUMP: u16 = 0x300;
const NLA_F_NESTED: u16 = 0x8000;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const HEADER: u16 = 1;
const HEADER_DEV_NAME: u16 = 2;
const HEADER_FLAGS: u16 = 3;
const COMPACT_BITSETS: u32 = 1;
/// The frame of a message, and that with the head of a generic one.
const FRAME: usize = 16;
const HEAD: usize = FRAME + 4;

pub fn take() -> Class {
    match ask() {
        Ok(found) => Class::found(found),
        Err(error) => Class::Absent(format!("{error:#}")),
    }
}

fn ask() -> Result<BTreeMap<String, Entry>> {
    let (netlink, kind) = (AddressFamily::Netlink, SockProtocol::NetlinkGeneric);
    let socket = socket(netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, kind)
        .context("opening a netlink socket")?;
    let family = family(&socket)?;
    let flags = attribute(HEADER_FLAGS, &COMPACT_BITSETS.to_ne_bytes());
    let header = attribute(HEADER | NLA_F_NESTED, &flags);
    let mut found = BTreeMap::new();
    for (command, what) in QUESTIONS {
        let question = message(family, *command, NLM_F_REQUEST | NLM_F_DUMP, &header);
        for answer in exchange(&socket, &question).with_context(|| format!("asking for {what}"))? {
            found.extend(entry(&answer, what));
        }
    }
    Ok(found)
}

/// The number under which the kernel takes questions about network cards.
fn family(socket: &OwnedFd) -> Result<u16> {
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
    let question = message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_REQUEST, &name);
    let answers = exchange(socket, &question).context("the kernel has no ethtool netlink")?;
    let attributes = answers.iter().flat_map(|answer| attributes(answer));
    let id = attributes.filter(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID).map(|(_, value)| value);
    let id = id.last().context("the kernel did not number ethtool netlink")?;
    Ok(u16::from_ne_bytes(id.try_into().context("a family's number")?))
}

fn entry(answer: &[u8], what: &str) -> Option<(String, Entry)> {
    let (mut card, mut value) = (None, String::new());
    for (kind, bytes) in attributes(answer) {
        if kind == HEADER {
            let name = attributes(bytes).find(|(kind, _)| *kind == HEADER_DEV_NAME);
            card = name.map(|(_, name)| String::from_utf8_lossy(name).replace('\0', ""));
            continue;
        }
        let _ = write!(value, " {kind}=");
        bytes.iter().for_each(|byte| {
            let _ = write!(value, "{byte:02x}");
        });
    }
    Some((format!("{} {what}", card?), Entry::new(value.trim_start().to_owned())))
}

fn message(family: u16, command: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEAD + payload.len()).unwrap_or(u32::MAX);
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(family.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // No sequence number and no port: there is one question at a time.
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(payload);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes of a message's payload; what is cut off is left out.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & !NLA_F_NESTED, value))
    })
}

/// Sends a question and returns the payloads of all answers.
fn exchange(socket: &OwnedFd, question: &[u8]) -> Result<Vec<Vec<u8>>> {
    let fd = socket.as_raw_fd();
    sendto(fd, question, &NetlinkAddr::new(0, 0), MsgFlags::empty()).context("sending")?;
    let is_dump = question.get(6..8) == Some(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes()[..]);
    let mut answers = Vec::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        let len = recv(fd, &mut buffer, MsgFlags::empty()).context("receiving")?;
        let mut rest = buffer.get(..len).unwrap_or_default();
        while let Some((kind, payload, next)) = first(rest) {
            match kind {
                NLMSG_DONE => return Ok(answers),
                NLMSG_ERROR => bail!("the kernel refuses: {:?}", payload.get(..4)),
                _ => answers.push(payload.get(4..).unwrap_or_default().to_vec()),
            }
            rest = next;
        }
        if !is_dump {
            return Ok(answers);
        }
    }
}

/// The kind and payload of the first message, and what comes after it.
fn first(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let next = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, bytes.get(FRAME..len)?, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut bytes = attribute(7, b"abc");
        bytes.extend(attribute(8 | NLA_F_NESTED, b""));
        bytes.extend(attribute(9, b"long enough!"));
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read, [(7, &b"abc"[..]), (8, b""), (9, b"long enough!")]);
        for cut in 0..bytes.len() {
            assert!(attributes(&bytes[..cut]).count() < 3, "{cut}");
        }
    }

    #[test]
    fn a_card_has_its_name_and_its_bytes() {
        let name = attribute(HEADER_DEV_NAME, b"eth0\0");
        let mut answer = attribute(HEADER, &name);
        answer.extend(attribute(2, &[3, 0, 0, 0]));
        let (key, entry) = entry(&answer, "coalescing").unwrap();
        assert_eq!((key.as_str(), entry.value.as_str()), ("eth0 coalescing", "2=03000000"));
    }
}
