// Package golden runs scripts of commands against a machine and compares what it answers with the transcript in the same file.
//
// A script is a file testdata/*.txt of a package. A line names a command and its arguments; lines that begin with two spaces are what
// the command above them answered; a line that begins with # is a comment. `go test -update` writes the answers anew: the diff
// is the review.
package golden
