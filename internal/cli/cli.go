// Package cli is the command line: the broker itself, and clients that speak the Kafka protocol to any broker.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"runtime"
	"slices"
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

A broker's address may also come from $GODWIT_BROKER.

Exit codes: 0 it worked, 1 it did not, 2 the command line makes no sense, 3 fsck found damage.`

// commands is the tree of all commands.
type commands struct {
	Serve   serveCmd   `cmd:"" help:"Run a broker."`
	Topic   topicCmd   `cmd:"" help:"Create, list, describe, change and delete topics."`
	Group   groupCmd   `cmd:"" help:"List and describe groups with their lag, reset and delete their positions."`
	Txn     txnCmd     `cmd:"" help:"List and describe transactions, and abort one that hangs."`
	Produce produceCmd `cmd:"" help:"Write records, one a line, from standard input."`
	Consume consumeCmd `cmd:"" help:"Read records."`
	Info    infoCmd    `cmd:"" help:"Show a broker: cluster, topics, space, settings."`
	Fsck    fsckCmd    `cmd:"" help:"Check the data of a stopped broker."`
	Bench   benchCmd   `cmd:"" help:"Measure brokers: this one or any other, by its own protocol."`
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
	context.AfterFunc(ctx, cancel) // a second signal ends the process at once
	return run(ctx, args, p, in, out, errOut)
}

func run(ctx context.Context, args []string, p Programs, in io.Reader, out, errOut io.Writer) int {
	code := -1
	parser, err := newParser(out, errOut, func(n int) { code = n })
	if err != nil {
		fmt.Fprintln(errOut, "godwit:", err)
		return exitUsage
	}
	k, err := parser.Parse(args)
	if code >= 0 { // --help
		return code
	}
	if err != nil {
		fmt.Fprintf(errOut, "godwit: %v\nTry: godwit %s--help\n", err, commandOf(parser, args))
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

func newParser(out, errOut io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(new(commands), kong.Name("godwit"), kong.Description(description), kong.PostBuild(environment),
		kong.Writers(out, errOut), kong.Exit(exit), kong.ValueFormatter(valueHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
}

// environment gives every setting of serve its variable. Other flags have one where their tags say so: a variable for each
// would have `topic create --config` read what `serve --config` is told.
func environment(k *kong.Kong) error {
	for _, c := range k.Model.Children {
		if c.Name != "serve" {
			continue
		}
		for _, f := range c.Flags {
			f.Envs = []string{"GODWIT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))}
			f.Tag.Envs = f.Envs
		}
	}
	return nil
}

// valueHelp is the help of a flag with its default and its variable.
func valueHelp(v *kong.Value) string {
	var more []string
	if unset := v.Default == "" || v.Default == "-1"; !unset && v.Flag != nil && v.Flag.PlaceHolder != "" {
		more = append(more, "default "+v.Default)
	} else if v.Flag != nil && v.Default == "true" {
		more = append(more, "on by default")
	}
	for _, name := range v.Tag.Envs {
		more = append(more, "$"+name)
	}
	if len(more) == 0 {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " (" + strings.Join(more, ", ") + ")."
}

// commandOf is the part of the command line that names a command.
func commandOf(k *kong.Kong, args []string) string {
	var words []string
	node := k.Model.Node
	for _, a := range args {
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Type == kong.CommandNode && n.Name == a })
		if i < 0 {
			break
		}
		node, words = node.Children[i], append(words, a+" ")
	}
	return strings.Join(words, "")
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

type versionCmd struct {
	JSON bool `name:"json" help:"As one JSON object."`
}

// Run implements the command.
func (c *versionCmd) Run(e *env) error {
	if c.JSON {
		return writeJSON(e.out, map[string]string{"version": e.programs.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
	}
	_, err := fmt.Fprintf(e.out, "godwit %s (%s, %s/%s)\n", e.programs.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

type fsckCmd struct {
	Data string `default:"./data" placeholder:"DIR" env:"GODWIT_DATA" help:"Data directory of the stopped broker."`
	JSON bool   `name:"json" help:"One JSON object a line."`
}

// Help is shown below the usage.
func (fsckCmd) Help() string {
	return `Reads every file of the log, every record batch and the saved state, and reports each thing that is not as it should
be with its file and position. It changes nothing. The exit code is 3 if anything was found.

    godwit fsck --data ./data
    godwit fsck --data ./data --json`
}

// Run implements the command.
func (c *fsckCmd) Run(e *env) error {
	ok, err := e.programs.Fsck(e.ctx, c.Data, e.out, c.JSON)
	if err == nil && !ok {
		return errDamage
	}
	return err
}
