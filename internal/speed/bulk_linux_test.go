package speed

import (
	"testing"

	"golang.org/x/sys/unix"
)

// bulkBuffer returns memory of its own, in huge pages or in none.
func bulkBuffer(b *testing.B, huge bool) []byte {
	buf, err := unix.Mmap(-1, 0, bulkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := unix.Munmap(buf); err != nil {
			b.Error(err)
		}
	})
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	if err := unix.Madvise(buf, advice); err != nil {
		b.Skip("no choice of pages here: ", err)
	}
	for i := 0; i < len(buf); i += 4096 {
		buf[i] = 1 // else all reads are of the one page of zeros
	}
	return buf
}
