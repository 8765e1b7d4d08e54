//! Who writes a file: the process that changed a setting, named while it can still be asked.
//!
//! fanotify reports every write to a watched file with the writer's pid, from inside the system
//! call. It only reports: nobody's open or write ever waits for us, which on a trading host
//! rules out the permission events. So the name is a race with the writer's exit: a shell's `echo`
//! is gone within a millisecond. What lost the race is looked up among the tasks that have ended
//! ([`exits`]), which know the command's name and the parent, but no more the unit.
//!
//! Not seen are changes that go past files (netlink, ioctl, `sched_setaffinity`), writes through
//! another instance of the file system (a container with its own /proc or /sys), and the kernel's
//! own. Whoever must know of every change has to look at the values, too.

pub mod events;
pub mod exits;
mod identity;

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use events::{Event, Pidfd};
use exits::Exits;
pub use identity::{Parent, Writer};

/// Why writers cannot be watched, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum WritersError {
    /// The privilege is missing.
    #[error("not allowed to watch who writes files: fanotify needs CAP_SYS_ADMIN")]
    NotPermitted,
    /// The kernel was built without fanotify.
    #[error("this kernel cannot say who writes a file: built without CONFIG_FANOTIFY")]
    NoKernelSupport,
    /// fanotify could not be set up for another reason.
    #[error("cannot set up fanotify: {0}")]
    SetUp(io::Error),
    /// Waiting for events or reading them failed; what was queued may be lost.
    #[error("cannot read fanotify's events: {0}")]
    Read(io::Error),
}

/// A path whose writers cannot be named.
#[derive(Debug)]
pub struct Unwatched {
    /// As it was given.
    pub path: String,
    /// Why.
    pub error: io::Error,
}

/// One write, or several of the same process to the same file in short succession.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The file, as it was given to [`Writers::watch`].
    pub path: String,
    /// Who wrote; `None` for a process outside this pid namespace.
    pub pid: Option<i32>,
    /// Whether it was this very process.
    pub own: bool,
    /// What is known of the process; `None` if it had ended before it could be asked.
    pub writer: Option<Writer>,
}

/// What happened since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The writes, in order per file system.
    pub writes: Vec<Write>,
    /// How often events were lost; each time stands for any number of writes.
    pub losses: u64,
}

/// Watches files for writers until it is dropped.
#[derive(Debug)]
pub struct Writers {
    /// Files of /proc, /sys and cgroups, which stay the same files.
    files: Option<Group>,
    /// All others, by the directories they are in: an editor replaces a file by a rename.
    entries: Option<Group>,
    by_inode: HashMap<(u64, u64), Watched>,
    by_entry: HashMap<(Vec<u8>, Vec<u8>), Vec<String>>,
    exits: Option<Exits>,
    unwatched: Vec<Unwatched>,
}

#[derive(Debug)]
struct Watched {
    paths: Vec<String>,
    /// The kernel forgets an inode of /proc/sys, and the mark with it, when memory is short; while
    /// somebody holds it open it does not.
    _held: File,
}

/// What fanotify calls a group: marks, and the queue of their events.
#[derive(Debug)]
struct Group(File);

/// The kernel's usual limit of queued events: as many errors in a row are no events any more.
const QUEUE: usize = 16_384;
const CHANGED: u64 = libc::FAN_MODIFY;
const ENTRY_CHANGED: u64 = CHANGED
    | libc::FAN_CREATE
    | libc::FAN_DELETE
    | libc::FAN_MOVED_FROM
    | libc::FAN_MOVED_TO
    | libc::FAN_EVENT_ON_CHILD;

impl Writers {
    /// Watches `paths`. Those that cannot be watched are listed by [`Self::unwatched`]; a file
    /// outside /proc, /sys and cgroups need not exist yet, its directory must.
    ///
    /// # Errors
    /// [`WritersError::NotPermitted`], [`WritersError::NoKernelSupport`],
    /// [`WritersError::SetUp`].
    pub fn watch(paths: &[String]) -> Result<Self, WritersError> {
        let mut writers = Self {
            files: Some(Group::open(0)?),
            // Before Linux 5.9 there is none; then its paths are listed as unwatched.
            entries: Group::open(libc::FAN_REPORT_DFID_NAME).ok(),
            by_inode: HashMap::new(),
            by_entry: HashMap::new(),
            exits: Exits::listen().ok(),
            unwatched: Vec::new(),
        };
        for path in paths {
            if let Err(error) = writers.add(path) {
                writers.unwatched.push(Unwatched { path: path.clone(), error });
            }
        }
        // An unused one would only be polled.
        if writers.by_inode.is_empty() {
            writers.files = None;
        }
        if writers.by_entry.is_empty() {
            writers.entries = None;
        }
        Ok(writers)
    }

    /// The paths whose writers stay unknown, with the reasons.
    pub fn unwatched(&self) -> &[Unwatched] {
        &self.unwatched
    }

    /// Whether processes that ended too soon can be named, too (taskstats; it needs CAP_NET_ADMIN
    /// in the host's own namespaces).
    pub fn names_ended(&self) -> bool {
        self.exits.is_some()
    }

    fn add(&mut self, path: &str) -> io::Result<()> {
        match is_of_the_kernel(path)? {
            true => self.add_file(path),
            false => self.add_entry(Path::new(path)),
        }
    }

    fn add_file(&mut self, path: &str) -> io::Result<()> {
        let held = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
        let status = held.metadata()?;
        let group = self.files.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        group.mark(CHANGED, Path::new(path))?;
        let watched = self
            .by_inode
            .entry((status.dev(), status.ino()))
            .or_insert_with(|| Watched { paths: Vec::new(), _held: held });
        watched.paths.push(path.to_owned());
        Ok(())
    }

    fn add_entry(&mut self, path: &Path) -> io::Result<()> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let group = self.entries.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let handle = handle_of(folder)?;
        group.mark(ENTRY_CHANGED, folder)?;
        let key = (handle, name.as_bytes().to_vec());
        self.by_entry.entry(key).or_default().push(path.display().to_string());
        Ok(())
    }

    /// Sleeps until something was written, at most for `timeout` (rounded up to whole
    /// milliseconds); a signal ends it early. Then returns all that is queued, often nothing.
    ///
    /// # Errors
    /// [`WritersError::Read`].
    pub fn next(&mut self, timeout: Duration) -> Result<Heard, WritersError> {
        let mut heard = Heard::default();
        if !self.poll(timeout)? {
            // Nobody is asked for now, but the kernel's queue must not fill up.
            self.exits.iter_mut().for_each(Exits::drain);
            return Ok(heard);
        }
        let mut buffer = vec![0; 64 * 1024];
        for group in [&self.files, &self.entries].into_iter().flatten() {
            while let Some(length) = group.read(&mut buffer, &mut heard.losses)? {
                let (events, whole) = events::decode(&buffer[..length]);
                heard.losses += u64::from(!whole);
                for event in &events {
                    self.hear(event, &mut heard);
                }
            }
        }
        self.name_ended(&mut heard);
        Ok(heard)
    }

    fn poll(&self, timeout: Duration) -> Result<bool, WritersError> {
        let wanted = |group: &Group| libc::pollfd {
            fd: group.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut fds: Vec<libc::pollfd> =
            [&self.files, &self.entries].into_iter().flatten().map(wanted).collect();
        // Rounded up: who sleeps a little too short asks again and again until the time is up.
        let timeout = timeout.as_nanos().div_ceil(1_000_000);
        let timeout = libc::c_int::try_from(timeout).unwrap_or(libc::c_int::MAX);
        // SAFETY: `fds` is an array of as many valid entries as it is said to have.
        match unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) } {
            ready @ 0.. => Ok(ready > 0),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(WritersError::Read(error)),
            },
        }
    }

    /// Takes the event's descriptors over and notes whom it tells of.
    fn hear(&self, event: &Event, heard: &mut Heard) {
        // SAFETY: the kernel has just opened the descriptors for us, and nobody else owns them.
        let own = |fd: i32| unsafe { OwnedFd::from_raw_fd(fd) };
        let file = event.file.map(own);
        let pidfd = match event.pidfd {
            Pidfd::Open(fd) => Some(own(fd)),
            Pidfd::None | Pidfd::Ended => None,
        };
        if event.mask & libc::FAN_Q_OVERFLOW != 0 {
            heard.losses += 1;
            return;
        }
        let pid = (event.pid > 0).then_some(event.pid);
        let writer = pid
            .filter(|_| event.pidfd != Pidfd::Ended)
            .and_then(|pid| identity::of(pid, pidfd.as_ref()));
        let own = pid == i32::try_from(std::process::id()).ok();
        for path in self.paths_of(event, file) {
            heard.writes.push(Write { path: path.clone(), pid, own, writer: writer.clone() });
        }
    }

    fn paths_of(&self, event: &Event, file: Option<OwnedFd>) -> &[String] {
        if let Some(entry) = &event.entry {
            let key = (entry.folder.clone(), entry.name.clone());
            return self.by_entry.get(&key).map_or(&[], Vec::as_slice);
        }
        let status = file.and_then(|file| File::from(file).metadata().ok());
        let watched = status.and_then(|status| self.by_inode.get(&(status.dev(), status.ino())));
        watched.map_or(&[], |watched| &watched.paths)
    }

    /// A task leaves its record before its pid is free, so whoever could not be asked has one.
    fn name_ended(&mut self, heard: &mut Heard) {
        let Some(exits) = &mut self.exits else { return };
        exits.drain();
        for write in heard.writes.iter_mut().filter(|write| write.writer.is_none()) {
            let ended = write.pid.and_then(|pid| exits.find(pid));
            write.writer = ended.map(identity::of_ended);
        }
    }
}

impl Group {
    fn open(reports: libc::c_uint) -> Result<Self, WritersError> {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | reports;
        // A descriptor of the process tells it from a later one with its pid (since Linux 5.15).
        let opened = match init(flags | libc::FAN_REPORT_PIDFD) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => init(flags),
            other => other,
        };
        opened.map(Self).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => WritersError::NotPermitted,
            Some(libc::ENOSYS) => WritersError::NoKernelSupport,
            _ => WritersError::SetUp(error),
        })
    }

    fn mark(&self, mask: u64, path: &Path) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let (fd, add) = (self.0.as_raw_fd(), libc::FAN_MARK_ADD);
        // SAFETY: `path` is a string with its NUL that outlives the call.
        match unsafe { libc::fanotify_mark(fd, add, mask, libc::AT_FDCWD, path.as_ptr()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// `None` when nothing is queued. An event whose file cannot be opened (it is gone by now) is
    /// lost by the kernel's way of telling so: one error, and on to the next event.
    fn read(&self, buffer: &mut [u8], losses: &mut u64) -> Result<Option<usize>, WritersError> {
        let mut failures = 0;
        loop {
            match (&self.0).read(buffer) {
                Ok(0) => return Ok(None),
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if failures == QUEUE => return Err(WritersError::Read(error)),
                Err(_) => (failures, *losses) = (failures + 1, *losses + 1),
            }
        }
    }
}

fn init(flags: libc::c_uint) -> io::Result<File> {
    let for_files = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE) as libc::c_uint;
    // SAFETY: takes flags only.
    match unsafe { libc::fanotify_init(flags, for_files) } {
        // SAFETY: the kernel has just given us this descriptor, and nobody else owns it.
        fd @ 0.. => Ok(unsafe { File::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel makes up the file: such a file is written in place only.
fn is_of_the_kernel(path: &str) -> io::Result<bool> {
    const KINDS: [i64; 7] = [
        libc::PROC_SUPER_MAGIC,
        libc::SYSFS_MAGIC,
        libc::CGROUP_SUPER_MAGIC,
        libc::CGROUP2_SUPER_MAGIC,
        libc::DEBUGFS_MAGIC,
        libc::TRACEFS_MAGIC,
        libc::RDTGROUP_SUPER_MAGIC,
    ];
    let kind = match kind_of_file_system(Path::new(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            kind_of_file_system(Path::new(path).parent().unwrap_or(Path::new("/")))
        }
        other => other,
    };
    kind.map(|kind| KINDS.contains(&kind))
}

fn kind_of_file_system(path: &Path) -> io::Result<i64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut answer = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `path` is a string with its NUL, `answer` has room for what is written; it is read
    // only where the kernel has filled it.
    unsafe {
        match libc::statfs(path.as_ptr(), answer.as_mut_ptr()) {
            0 => Ok(answer.assume_init().f_type),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A directory as events name it: the bytes of its `struct file_handle`.
fn handle_of(folder: &Path) -> io::Result<Vec<u8>> {
    #[repr(C)]
    struct Handle {
        bytes: libc::c_uint,
        kind: libc::c_int,
        handle: [u8; libc::MAX_HANDLE_SZ as usize],
    }
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let room = libc::MAX_HANDLE_SZ as libc::c_uint;
    let mut handle = Handle { bytes: room, kind: 0, handle: [0; libc::MAX_HANDLE_SZ as usize] };
    let mut mount = 0;
    // SAFETY: `path` is a string with its NUL; `handle` begins as `struct file_handle` does and has
    // as much room behind it as it says.
    let done = unsafe {
        libc::name_to_handle_at(
            libc::AT_FDCWD,
            path.as_ptr(),
            (&raw mut handle).cast(),
            &mut mount,
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(events::handle_key(handle.kind, &handle.handle[..handle.bytes.min(room) as usize]))
}
