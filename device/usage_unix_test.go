//go:build unix

package device_test

import (
	"syscall"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
)

// diskUsage is the space that a file takes, in bytes.
func diskUsage(t *testing.T, f *device.File) int64 {
	t.Helper()
	info, err := f.OSFile().Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512 // st_blocks counts 512 bytes whatever the file system
}
