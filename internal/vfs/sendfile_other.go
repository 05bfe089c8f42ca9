//go:build !linux

package vfs

import "net"

// sendfile leaves all to copying: darwin's sendfile(2) differs and is not a system to serve from.
func sendfile(net.Conn, File, int64, int64) (sent int64, handled bool, err error) {
	return 0, false, nil
}
