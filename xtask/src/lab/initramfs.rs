//! The guest's whole file system: a cpio archive in the format the kernel unpacks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::host;
use super::kernel::Kernel;
use super::scenario::{Scenario, Step};

/// The first process.
const INIT: &str = include_str!("../../../lab/guest/init");
/// The function it sends results with.
const RECORD: &str = include_str!("../../../lab/guest/record");

/// What every guest loads: the way back to the host, and the file quietcore reads MSRs from.
const MODULES: &[&str] = &["virtio_pci", "virtio_console", "msr"];

/// Builds the archive for one scenario.
pub fn build(
    s: &Scenario,
    steps: &[Step],
    kernel: &Kernel,
    quietcore: &Path,
    tools: &[PathBuf],
) -> Result<Vec<u8>> {
    let mut a = Archive::default();
    a.file("init", 0o755, INIT.as_bytes());
    a.file("lab/record", 0o644, RECORD.as_bytes());
    let busybox = host::find_program("busybox").context("busybox went away")?;
    a.file("bin/busybox", 0o755, &read(&busybox)?);
    a.link("bin/sh", "busybox");
    if !host::is_static(quietcore)? {
        bail!("{} is not linked statically, it cannot run in a guest", quietcore.display());
    }
    a.file("bin/quietcore", 0o755, &read(quietcore)?);
    for tool in tools {
        let name = tool.file_name().context("a tool has a name")?;
        a.file(&format!("bin/{}", name.to_string_lossy()), 0o755, &read(tool)?);
    }
    a.file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n");
    a.file("etc/group", 0o644, b"root:x:0:\n");
    a.file("etc/hostname", 0o644, format!("{}\n", s.name).as_bytes());
    a.file("etc/os-release", 0o644, b"ID=lab\nPRETTY_NAME=\"quietcore lab guest\"\n");

    a.file(&format!("boot/config-{}", kernel.release), 0o644, &kernel.config);

    let mut wanted = MODULES.to_vec();
    wanted.extend(s.modules);
    let mut order = String::new();
    for (name, content) in kernel.modules(&wanted)? {
        a.file(&format!("lab/modules/{name}"), 0o644, &content);
        order.push_str(&name);
        order.push('\n');
    }
    a.file("lab/modules/order", 0o644, order.as_bytes());

    let mut list = String::new();
    for step in steps {
        a.file(&format!("lab/steps/{}", step.name), 0o644, step.run.as_bytes());
        list.push_str(&format!("{} {}\n", step.name, step.seconds));
    }
    a.file("lab/steps.list", 0o644, list.as_bytes());
    a.dir("lab/ship");
    Ok(a.finish())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// A cpio archive of kind "newc" (the kernel's driver-api/early-userspace/buffer-format document).
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    dirs: BTreeSet<String>,
}

impl Archive {
    fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.parents(path);
        self.entry(path, 0o100_000 | mode, content);
    }

    fn link(&mut self, path: &str, to: &str) {
        self.parents(path);
        self.entry(path, 0o120_777, to.as_bytes());
    }

    fn dir(&mut self, path: &str) {
        self.parents(path);
        if self.dirs.insert(path.to_string()) {
            self.entry(path, 0o040_755, b"");
        }
    }

    /// The kernel makes no folders on its own: they must come before what is in them.
    fn parents(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.dir(parent);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let links = if mode & 0o040_000 == 0o040_000 { 2 } else { 1 };
        let size = content.len();
        let name = path.len() + 1;
        // magic, inode, mode, uid, gid, links, mtime, size, 4 device numbers, name length, checksum
        let header = format!(
            "070701{:08X}{mode:08X}{:08X}{:08X}{links:08X}{:08X}{size:08X}{:08X}{:08X}{:08X}{:08X}{name:08X}{:08X}",
            self.entries, 0, 0, 0, 0, 0, 0, 0, 0
        );
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        while self.bytes.len() % 4 != 0 {
            self.bytes.push(0);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, b"");
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_first_and_once() {
        let mut a = Archive::default();
        a.file("a/b/c", 0o644, b"hello");
        a.file("a/b/d", 0o755, b"");
        a.link("a/e", "b/c");
        let bytes = a.finish();
        assert_eq!(names(&bytes), ["a", "a/b", "a/b/c", "a/b/d", "a/e", "TRAILER!!!"]);
        assert_eq!(bytes.len() % 4, 0);
    }

    /// Walks an archive by its headers, as an unpacker does.
    fn names(bytes: &[u8]) -> Vec<String> {
        let field = |at: usize, n: usize| {
            let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).unwrap();
            usize::from_str_radix(text, 16).unwrap()
        };
        let mut at = 0;
        let mut names = Vec::new();
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (size, name) = (field(at, 6), field(at, 11));
            let text = &bytes[at + 110..at + 110 + name - 1];
            names.push(String::from_utf8(text.to_vec()).unwrap());
            at = (at + 110 + name).next_multiple_of(4);
            at = (at + size).next_multiple_of(4);
        }
        names
    }
}
