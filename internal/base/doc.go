// Package base holds the identifiers, errors and limits that every layer shares.
//
// It imports nothing of the project and knows no protocol.
package base
