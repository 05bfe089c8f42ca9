package kafka

import (
	"encoding/binary"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// request is what is known of a request besides its message.
type request struct {
	server    *Server
	conn      *conn // that it came on
	api       *served
	version   int16
	correlate int32
	namespace string // in which all names of the request are
	clientID  string // as the client calls itself; empty if it does not
	software  software
	local     net.Addr // the address that the client used
	remote    net.Addr
	received  time.Time // when its last byte was read
}

// software is what a client said of itself in ApiVersions (KIP-511).
type software struct{ name, version string }

// Limits of what a request header is.
const (
	minHeader   = 8      // key, version, correlation ID
	maxClientID = 32_767 // its length is an int16
	maxTags     = 1024   // tagged fields of a header; none is defined
)

// header is the decoded request header, version 1 or 2.
type header struct {
	key, version int16
	correlate    int32
	clientID     string
	body         []byte
}

// parseHeader decodes the fixed part of a request header: everything but the tagged fields, whose
// presence depends on the API.
func parseHeader(b []byte) (h header, err error) {
	if len(b) < minHeader {
		return h, malformedf("a request of %d bytes has no header", len(b))
	}
	h.key = int16(binary.BigEndian.Uint16(b))
	h.version = int16(binary.BigEndian.Uint16(b[2:]))
	h.correlate = int32(binary.BigEndian.Uint32(b[4:]))
	b = b[minHeader:]
	if len(b) < 2 {
		return h, malformedf("request header of API %d ends before the client ID", h.key)
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n > len(b) || n < -1 {
		return h, malformedf("request header of API %d: client ID of %d bytes", h.key, n)
	}
	if n > 0 {
		h.clientID, b = string(b[:n]), b[n:]
	}
	h.body = b
	return h, nil
}

// skipTags drops the tagged fields that a flexible request header ends with.
func skipTags(b []byte) ([]byte, error) {
	count, k := binary.Uvarint(b)
	if k <= 0 || count > maxTags {
		return nil, malformedf("request header: bad count of tagged fields")
	}
	b = b[k:]
	for range count {
		_, k := binary.Uvarint(b)
		if k <= 0 {
			return nil, malformedf("request header: bad tag")
		}
		b = b[k:]
		size, k := binary.Uvarint(b)
		if k <= 0 || size > uint64(len(b)-k) {
			return nil, malformedf("request header: bad size of a tagged field")
		}
		b = b[k+int(size):]
	}
	return b, nil
}

// flexible reports whether an API's version has compact encodings and tagged fields (KIP-482).
func flexible(key kmsg.Key, version int16) bool {
	req := key.Request()
	req.SetVersion(version)
	return req.IsFlexible()
}

// host is the host and port under which the client reaches this node: as configured, else the
// address that this connection was made to.
func (rc *request) host() (string, int32) {
	host, port := splitHostPort(rc.local)
	if a := rc.server.opts.Advertise; a != "" {
		h, p, err := net.SplitHostPort(a)
		if err != nil {
			return a, port
		}
		n, _ := strconv.ParseInt(p, 10, 32)
		return h, int32(n)
	}
	return host, port
}

// splitHostPort leaves out an IPv6 zone, which means nothing on the client's machine.
func splitHostPort(a net.Addr) (string, int32) {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String(), int32(tcp.Port)
	}
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String(), 0
	}
	n, _ := strconv.ParseInt(port, 10, 32)
	return host, int32(n)
}

// The operations that Kafka reports as allowed where there is no authorizer: all that a resource supports, as a bit
// field (KIP-430). operationsUnknown is the value where the client did not ask.
const (
	operationsTopic   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	operationsGroup   int32 = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11
	operationsCluster int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	operationsUnknown int32 = -1 << 31
)
