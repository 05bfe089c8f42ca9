package app

import (
	"io"

	"godwit/internal/cli"
)

// Main runs a command line of the program and returns its exit code.
func Main(args []string, version string, in io.Reader, out, errOut io.Writer) int {
	return cli.Main(args, cli.Programs{Version: version, Serve: Run, Fsck: Fsck}, in, out, errOut)
}
