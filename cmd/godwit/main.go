// Command godwit is the broker and its command line.
package main

import (
	"os"

	"godwit/internal/app"
)

// version is set by the build.
var version = "dev"

func main() {
	os.Exit(app.Main(os.Args[1:], version, os.Stdin, os.Stdout, os.Stderr))
}
