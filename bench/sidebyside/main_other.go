//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "sidebyside: reads /proc and needs Linux")
	os.Exit(1)
}
