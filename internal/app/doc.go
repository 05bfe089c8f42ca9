// Package app puts a node together: settings in, listeners out. It is the only package that knows all the others.
package app
