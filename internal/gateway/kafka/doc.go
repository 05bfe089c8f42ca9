// Package kafka is the gateway for the Kafka protocol: it turns requests into calls on the broker and its answers
// into responses, in the versions that Apache Kafka 4.4 serves.
//
// Every request has its own file; apis.go is the one list of them, from which requests are dispatched and
// ApiVersions is answered. errors.go is the one table from the broker's error codes to Kafka's.
//
// A connection has two goroutines. The reader cuts the stream into requests, the worker answers them in
// their order. Produce requests overlap: the next one begins while the journal still writes the one before. Any
// other request begins when all before it are answered, and is answered before the next begins.
//
// Guarantees:
//
//  1. Responses leave a connection in the order of its requests.
//  2. No byte of a request is allocated before its length passed the limits, and the bytes of all
//     requests that are not yet answered stay below Options.MaxInFlightBytes. A
//     part of that is kept free of produce requests, so that these do not hold up the others.
//  3. The memory of a produce request is reused only after the journal released it and its
//     response was written or given up.
//  4. A request that cannot be parsed, or a handler that panics, ends its own connection and no other.
//  5. What waits (a fetch, a join) ends when the peer goes away or the server closes.
//
// Features (KIP-584): ApiVersions announces those that change what clients do: transaction.version switches them to transactions of
// version 2, group.version to KIP-848, share.version to share groups, streams.version to KIP-1071. metadata.version is only read by
// tools that change features, which are refused anyway.
package kafka
