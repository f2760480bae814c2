//! For the tests of linear time: what this thread itself has spent, however busy the machine is.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Runs a function and returns the processor time it took.
pub(crate) fn cpu_time(work: impl FnOnce()) -> Duration {
    let before = spent();
    work();
    spent() - before
}

fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
