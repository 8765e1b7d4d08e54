//! What the self-test does to itself and to nobody else: an allocator with one lock, a network of
//! its own.

use std::io;

/// Makes all threads of this process share one arena of glibc's allocator; `false` where the C
/// library knows no arenas.
pub fn share_one_arena() -> bool {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallopt only sets a parameter of the allocator.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) == 1 }
    }
    #[cfg(not(target_env = "gnu"))]
    false
}

/// Gives the allocator's free memory back, which holds each arena's lock meanwhile.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim is safe to call from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Gives the calling thread, and what it starts, a network and mounts of its own.
///
/// # Errors
/// The system's: EPERM without CAP_SYS_ADMIN.
pub fn leave_network_and_mounts() -> io::Result<()> {
    // SAFETY: unshare of these two touches no memory of ours.
    match unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_can_still_be_had_after_trimming() {
        trim_heap();
        assert_eq!(vec![7u8; 1 << 20].iter().filter(|&&b| b == 7).count(), 1 << 20);
    }
}
