package vfs

import "golang.org/x/sys/unix"

// RaiseFileLimit asks for as many open files as the system allows the process: each connection and each data file
// is one.
func RaiseFileLimit() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur >= l.Max {
		return err
	}
	l.Cur = l.Max
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}
