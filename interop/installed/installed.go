// Package installed knows the clients that install.sh made: where each is, and the command line that starts it.
package installed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Places are the directories that run.sh and apps.sh prepared.
type Places struct {
	Source string // interop/ of the repository
	Built  string // .cache/interop: installed packages and compiled programs
}

// Find makes both paths absolute.
func Find(source, built string) (Places, error) {
	source, err := filepath.Abs(source)
	if err != nil {
		return Places{}, err
	}
	built, err = filepath.Abs(built)
	return Places{Source: source, Built: built}, err
}

// Client is the command line of a client's program, to which the command and its arguments are added.
func (p Places) Client(name string) ([]string, error) {
	node := filepath.Join(p.Built, "node/node22")
	python := filepath.Join(p.Built, "venv/bin/python")
	switch name {
	case "franz-go":
		return []string{filepath.Join(p.Built, "franz")}, nil
	case "sarama":
		return []string{filepath.Join(p.Built, "sarama")}, nil
	case "sarama-0.11":
		return []string{"env", "SARAMA_VERSION=0.11.0.0", filepath.Join(p.Built, "sarama")}, nil
	case "java", "java-2.1":
		command, err := p.Java(name)
		return append(command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "Client"), err
	case "kcat":
		return []string{"python3", "-B", filepath.Join(p.Source, "kcat/client.py")}, nil
	case "confluent":
		return []string{python, "-B", filepath.Join(p.Source, "python/confluent.py")}, nil
	case "aiokafka":
		return []string{python, "-B", filepath.Join(p.Source, "python/aio.py")}, nil
	case "kafka-python":
		return []string{python, "-B", filepath.Join(p.Source, "python/kafkapython.py")}, nil
	case "kafkajs", "platformatic":
		return []string{node, filepath.Join(p.Built, "node", name+".mjs")}, nil
	}
	return nil, fmt.Errorf("no client is named %q", name)
}

// Python is the command line of a program below python/, to which its arguments are added.
func (p Places) Python(program string) []string {
	return []string{filepath.Join(p.Built, "venv/bin/python"), "-B", filepath.Join(p.Source, "python", program)}
}

// Java is the command line of a JVM, made for short runs, to which further options of the JVM, a class and its arguments are
// added. dir, below Built, has compiled classes and the class path.
func (p Places) Java(dir string) ([]string, error) {
	dir = filepath.Join(p.Built, dir)
	cp, err := os.ReadFile(filepath.Join(dir, "cp.txt"))
	if err != nil {
		return nil, fmt.Errorf("no class path (run.sh and apps.sh make it): %w", err)
	}
	return []string{
		"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Dfile.encoding=UTF-8",
		"-cp", dir + ":" + strings.TrimSpace(string(cp)),
	}, nil
}
