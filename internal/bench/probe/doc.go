// Package probe watches a target's process from outside: the CPU, memory and disk it takes, and the syncs it makes
// before it acknowledges.
//
// Nothing here asks the target: figures come from /proc and /sys, syncs from ptrace(2). On systems other than Linux
// every function answers, and answers that nothing can be observed.
package probe
