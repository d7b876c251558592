//go:build !linux

package speed

import "testing"

// bulkBuffer returns memory in what pages there are.
func bulkBuffer(b *testing.B, huge bool) []byte {
	if huge {
		b.Skip("no choice of pages here")
	}
	return make([]byte, bulkBytes)
}
