//go:build darwin || freebsd

package main

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes files in dir may still take, -1 if the
// system does not tell, and whether they take memory.
func freeSpace(dir string) (free int64, inMemory bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return -1, false
	}
	return max(int64(st.Bavail), 0) * int64(st.Bsize), false
}
