//go:build linux || darwin || freebsd

package lock

import (
	"golang.org/x/sys/unix"
)

// tryFlock tries once. ok == false and no error: somebody else holds it.
// An error means that there is no flock here.
func tryFlock(fd int, exclusive bool) (ok bool, err error) {
	how := unix.LOCK_SH | unix.LOCK_NB
	if exclusive {
		how = unix.LOCK_EX | unix.LOCK_NB
	}
	for {
		switch err := unix.Flock(fd, how); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return false, nil
		default:
			return false, err
		}
	}
}

func unflock(fd int) {
	for unix.Flock(fd, unix.LOCK_UN) == unix.EINTR {
	}
}
