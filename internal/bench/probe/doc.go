// Package probe watches the process of a target from outside: CPU, memory, disk, and the syncs it makes.
package probe
