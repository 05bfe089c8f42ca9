// Command godwit is the broker and its command line.
package main

import (
	"os"

	"godwit/internal/app"
	"godwit/internal/cli"
)

// version is set by the build.
var version = "dev"

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Programs{Version: version, Serve: app.Run, Fsck: app.Fsck}, os.Stdin, os.Stdout, os.Stderr))
}
