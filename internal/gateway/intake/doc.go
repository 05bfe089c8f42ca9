// Package intake is the memory in which gateways take requests in: buffers that are used again, and budgets that bound how many bytes
// are in flight.
package intake
