// Package killtest kills the real binary under load, again and again, and checks from outside that every acknowledged
// record is where it was acknowledged, and none is there twice.
package killtest
