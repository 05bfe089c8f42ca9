package state

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"godwit/internal/base"
)

// Error is a failure of the store. It unwraps to its cause, and errors.As finds a *base.Error in it.
type Error struct {
	Code  base.Code // CodeDiskFull, CodeCorruption, CodeShutdown or CodeStorage
	What  string    // what the store was doing
	Cause error
}

func (e *Error) Error() string { return "state store: " + e.What + ": " + e.Cause.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// As lets the code be found behind any wrapping, by base.CodeOf.
func (e *Error) As(target any) bool {
	t, ok := target.(**base.Error)
	if ok {
		*t = &base.Error{Code: e.Code, Msg: e.Error()}
	}
	return ok
}

var errClosed = errors.New("it is closed")

// failure marks err with its code. nil stays nil.
func failure(what string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	code := base.CodeStorage
	switch b := (*base.Error)(nil); {
	case errors.As(err, &b):
		code = b.Code
	case errors.Is(err, errClosed):
		code = base.CodeShutdown
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		code = base.CodeDiskFull
	case pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist):
		// A file that Pebble refers to and does not find was taken away from under it.
		code = base.CodeCorruption
	}
	return &Error{Code: code, What: what, Cause: err}
}
