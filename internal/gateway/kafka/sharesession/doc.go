// Package sharesession keeps the share sessions of a broker: what each member of a share group fetches, so that its requests
// need only name what changed, and which requests are in their order (KIP-932). It also checks acknowledgements before
// a queue looks at them.
package sharesession
