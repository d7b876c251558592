package lock

import (
	"context"
	"os"
	"time"
)

// headerPoll is how often a busy header lock is tried again.
const headerPoll = 20 * time.Millisecond

// HoldHeader takes the brief lock that cryptsetup takes around reading
// (shared) and writing (exclusive) LUKS2 headers: flock on a regular file; on
// Linux, for a block device, flock on its file in /run/cryptsetup. It waits for
// other holders until ctx is done. Where such a lock cannot be had at all (no
// permission in /run, no flock on the filesystem) release does nothing: a
// header can be read without. f keeps no lock after release.
func HoldHeader(ctx context.Context, f *os.File, exclusive bool) (release func(), err error) {
	for {
		release, busy, err := tryHeader(f, exclusive)
		if err != nil || !busy {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, inUse(f.Name(), "its header stayed locked: %v", context.Cause(ctx))
		case <-time.After(headerPoll):
		}
	}
}
