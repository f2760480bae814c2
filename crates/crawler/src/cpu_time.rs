//! Measures the CPU time of the current thread, for tests of linear time on a busy machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Runs a function and returns the CPU time it used.
pub(crate) fn cpu_time(work: impl FnOnce()) -> Duration {
    let before = thread_cpu_time();
    work();
    thread_cpu_time() - before
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
