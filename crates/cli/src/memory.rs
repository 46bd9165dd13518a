//! Gives memory that is free back to the system.
//!
//! glibc keeps what was freed for later: after a rush of large requests the process stayed at gigabytes for hours.
//! Other C libraries need nothing here.

#![allow(unsafe_code)]

use std::time::Duration;

/// How often a server looks.
const EVERY: Duration = Duration::from_secs(10);

/// For the whole process, once, before it has threads: large blocks go back when they are freed, and threads share a
/// few heaps. glibc would raise the first limit by itself, up to 32 MiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn tune() {
    const LARGE: libc::c_int = 128 * 1024;
    const HEAPS: libc::c_int = 4;
    // SAFETY: mallopt takes numbers and may be called at any time. A refusal leaves the default.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Returns what small blocks left free, every few seconds, as long as it is polled.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) async fn give_back() {
    let mut before = None;
    loop {
        tokio::time::sleep(EVERY).await;
        let now = resident_pages();
        // Nothing to look for in a process that has not grown or shrunk.
        if now != before {
            // SAFETY: malloc_trim takes a number and locks each heap while it looks.
            let _ = tokio::task::spawn_blocking(|| unsafe { libc::malloc_trim(0) }).await;
            before = resident_pages();
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn resident_pages() -> Option<u64> {
    std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn tune() {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) async fn give_back() {
    std::future::pending().await
}
