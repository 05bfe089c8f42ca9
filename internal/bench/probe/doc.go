// Package probe watches a target's process from outside: the CPU, memory and disk it takes, and the syncs it makes
// before it acknowledges.
//
// Nothing here asks the target. CPU, memory and disk come from /proc, for the process and its descendants, flushes of the
// device from /sys, which says nothing of who asked for them. On systems other than Linux every function answers, and answers that
// nothing can be observed.
//
// # How syncs are seen
//
// By the kernel's tracepoints for system calls, through perf_event_open(2), if this process may (root, as a rule) and the kernel
// has them (CONFIG_FTRACE_SYSCALLS: distributions do). The target is not stopped and not slowed; tracefs need not be mounted.
//
// Otherwise by ptrace(2), which needs the target's user and, where Yama restricts it, root. Each system call of each thread
// stops twice, and a stop waits until the tracer gets a CPU: a few tens of microseconds on a quiet machine, milliseconds on one
// with more busy threads than cores. It is used for a few seconds and never while something is measured. It is also used where
// tracepoints see too little: for a target that writes through (O_SYNC, O_DSYNC).
//
// A trace ends with the process that made it, whichever way that ends: the kernel then lets the target go on.
//
// # What may be missed
//
//   - io_uring and io_submit sync without a call that says so. A target that uses them is graded synced if other syncs cover all
//     its acknowledgements, else unknown. The same goes for records lost because the system made too many calls, for a target that
//     ended, and for programs of another architecture under ptrace.
//   - By tracepoints: a file opened by openat2 for writing through, while traced, that is closed again before the end; calls of
//     32-bit programs; CPUs that come online meanwhile. The name of a file that is closed within milliseconds of its sync; the
//     sync itself is seen.
//   - By ptrace: a thread that its process starts within the moment of attaching is found, one that is stuck in the kernel for
//     seconds may report late.
//   - That the call was made is no proof that the device kept its promise, nor that it was the message's data that was
//     synced: any file counts. Grade takes out what falls between a message and its acknowledgement by chance, as measured
//     while nothing is sent.
//   - A target in another process, on another machine or in a virtual one has no syncs here.
package probe
