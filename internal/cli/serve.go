package cli

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"godwit/internal/settings"
)

type serveCmd struct {
	settings.Settings
	Config string `placeholder:"FILE" help:"YAML file with any of these settings, under the same names."`
}

// Help is shown below the usage.
func (serveCmd) Help() string {
	return `Every setting is a flag, an environment variable and a key of the YAML file: --wal-file-size, GODWIT_WAL_FILE_SIZE and
wal-file-size are the same. A flag wins over the environment, the environment over the file.

    godwit serve
    godwit serve --data /var/lib/godwit --kafka 0.0.0.0:9092 --advertise broker.example:9092
    godwit serve --config godwit.yaml

One line is logged for each listener, with its address, and then 'ready'. SIGTERM answers what is under way and ends
with code 0.`
}

// BeforeResolve reads the configuration file, so that its values count before the defaults.
func (c *serveCmd) BeforeResolve(k *kong.Kong, ctx *kong.Context, trace *kong.Path) error {
	path := os.Getenv("GODWIT_CONFIG")
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			if v, ok := ctx.FlagValue(p.Flag).(string); ok && v != "" {
				path = v
			}
		}
	}
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	values, err := settings.ReadFile(f, settingNames(k))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, name := range flag.Envs {
			if _, ok := os.LookupEnv(name); ok {
				return nil, nil
			}
		}
		return values[flag.Name], nil
	}))
	return nil
}

// Run implements the command.
func (c *serveCmd) Run(e *env) error {
	if err := c.Validate(); err != nil {
		return usage("%w", err)
	}
	log := newLogger(e.err, c.LogLevel, c.LogFormat)
	log.Info("starting", "version", e.programs.Version, "data", c.Data, "durability", c.Durability)
	return e.programs.Serve(e.ctx, &c.Settings, log, func(addrs map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(addrs)) {
			log.Info("listening", "protocol", name, "address", addrs[name])
		}
		log.Info("ready")
	})
}

func newLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		l = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
