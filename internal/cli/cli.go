// Package cli is the command line: the broker itself, and clients that speak the Kafka protocol to any broker.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"godwit/internal/settings"
)

// Programs are what the commands start that they must not know.
type Programs struct {
	Version string
	Serve   func(ctx context.Context, s *settings.Settings, log *slog.Logger, ready func(addrs map[string]string)) error
	Fsck    func(ctx context.Context, dir string, out io.Writer, asJSON bool) (ok bool, err error)
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for did not work
	exitUsage  = 2 // the command line makes no sense
	exitFound  = 3 // fsck found damage
)

const description = `Godwit is a message broker: a durable log that Kafka clients take for Kafka.

Start a broker with data in ./data:

    godwit serve

and in another terminal:

    godwit topic create orders --partitions 3
    echo hello | godwit produce orders
    godwit consume orders

Exit codes: 0 it worked, 1 it did not, 2 the command line makes no sense, 3 fsck found damage.`

// commands is the tree of all commands.
type commands struct {
	Serve   serveCmd   `cmd:"" help:"Run a broker."`
	Topic   topicCmd   `cmd:"" help:"Create, list, describe, change and delete topics."`
	Produce produceCmd `cmd:"" help:"Write records, one a line, from standard input."`
	Consume consumeCmd `cmd:"" help:"Read records."`
	Info    infoCmd    `cmd:"" help:"Show a broker: cluster, topics, space, settings."`
	Fsck    fsckCmd    `cmd:"" help:"Check the data of a stopped broker."`
	Version versionCmd `cmd:"" help:"Show the version."`
}

// env is what commands run in.
type env struct {
	ctx      context.Context
	in       io.Reader
	out, err io.Writer
	programs Programs
	names    []string // of all settings
}

// errDamage ends fsck with its own exit code.
var errDamage = errors.New("damage was found")

// Main runs a command line and returns the exit code.
func Main(args []string, p Programs, in io.Reader, out, errOut io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	code := -1
	var c commands
	parser, err := kong.New(&c, kong.Name("godwit"), kong.Description(description), kong.DefaultEnvars("GODWIT"),
		kong.Writers(out, errOut), kong.Exit(func(n int) { code = n }), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	if err != nil {
		fmt.Fprintln(errOut, "godwit:", err)
		return exitUsage
	}
	k, err := parser.Parse(args)
	if code >= 0 { // --help
		return code
	}
	if err != nil {
		fmt.Fprintf(errOut, "godwit: %v\nTry: godwit %s--help\n", err, commandOf(args))
		return exitUsage
	}
	err = k.Run(&env{ctx: ctx, in: in, out: out, err: errOut, programs: p, names: settingNames(parser)})
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errDamage):
		return exitFound
	case errors.Is(err, errUsage):
		fmt.Fprintln(errOut, "godwit:", err)
		return exitUsage
	}
	fmt.Fprintln(errOut, "godwit:", explain(err))
	return exitFailed
}

// errUsage marks errors in what was asked for, as against in carrying it out.
var errUsage = errors.New("")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w%w", errUsage, fmt.Errorf(format, args...))
}

// commandOf is the part of the command line that names the command.
func commandOf(args []string) string {
	var words []string
	for _, a := range args {
		if strings.HasPrefix(a, "-") || len(words) == 2 {
			break
		}
		words = append(words, a)
		if a != "topic" {
			break
		}
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, " ") + " "
}

// settingNames lists the flags of serve that are settings.
func settingNames(k *kong.Kong) (names []string) {
	for _, c := range k.Model.Children {
		if c.Name == "serve" {
			for _, f := range c.Flags {
				if f.Name != "config" && f.Name != "help" {
					names = append(names, f.Name)
				}
			}
		}
	}
	return names
}

type versionCmd struct{}

// Run implements the command.
func (versionCmd) Run(e *env) error {
	_, err := fmt.Fprintln(e.out, "godwit", e.programs.Version)
	return err
}

type fsckCmd struct {
	Data string `default:"./data" placeholder:"DIR" help:"Data directory of the stopped broker."`
	JSON bool   `name:"json" help:"One JSON object a line."`
}

// Help is shown below the usage.
func (fsckCmd) Help() string {
	return `Reads every file of the log, every record batch and the saved state, and reports each thing that is not as it should
be with its file and position. It changes nothing.

    godwit fsck --data ./data`
}

// Run implements the command.
func (c *fsckCmd) Run(e *env) error {
	ok, err := e.programs.Fsck(e.ctx, c.Data, e.out, c.JSON)
	if err == nil && !ok {
		return errDamage
	}
	return err
}
