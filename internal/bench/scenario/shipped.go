package scenario

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed shipped/*.yaml
var files embed.FS

// Shipped are the scenarios inside the program, by name.
func Shipped() ([]*Scenario, error) {
	entries, err := files.ReadDir("shipped")
	if err != nil {
		return nil, err
	}
	var all []*Scenario
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("shipped", e.Name()))
		if err != nil {
			return nil, err
		}
		s, err := Parse(strings.TrimSuffix(e.Name(), ".yaml"), text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Load finds a scenario: the name of a shipped one, or a YAML file.
func Load(nameOrFile string) (*Scenario, error) {
	shipped, err := Shipped()
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(shipped, func(s *Scenario) bool { return s.Name == nameOrFile }); i >= 0 {
		return shipped[i], nil
	}
	text, err := os.ReadFile(nameOrFile)
	if err != nil {
		return nil, fmt.Errorf("%s is neither a shipped scenario (see: godwit bench list) nor a file that can be read: %w", nameOrFile, err)
	}
	return Parse(strings.TrimSuffix(filepath.Base(nameOrFile), ".yaml"), text)
}

// Text is a shipped scenario as it was written, with its comments.
func Text(name string) (string, bool) {
	text, err := files.ReadFile(path.Join("shipped", name+".yaml"))
	return string(text), err == nil
}
