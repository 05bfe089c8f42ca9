package app

import "crypto/rand"

// seed is fresh randomness for the node's generator of identifiers.
func seed() (s [32]byte) {
	rand.Read(s[:])
	return s
}
