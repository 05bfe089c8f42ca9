package app

import (
	"log/slog"

	"golang.org/x/sys/unix"
)

// raiseFileLimit asks for as many open files as the system allows: each connection and data file is one.
func raiseFileLimit(log *slog.Logger) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur >= l.Max {
		return
	}
	l.Cur = l.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		log.Debug("open files stay limited", "limit", l.Cur, "error", err)
	}
}
