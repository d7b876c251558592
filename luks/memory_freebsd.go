package luks

import (
	"os"

	"golang.org/x/sys/unix"
)

// systemBounds is the memory that is free or inactive, and RLIMIT_AS.
func systemBounds() []bound {
	var out []bound
	free, err1 := unix.SysctlUint32("vm.stats.vm.v_free_count")
	inactive, err2 := unix.SysctlUint32("vm.stats.vm.v_inactive_count")
	if err1 == nil && err2 == nil {
		out = append(out, bound{(uint64(free) + uint64(inactive)) * uint64(os.Getpagesize()), "free and inactive memory"})
	}
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &r) == nil && r.Cur > 0 {
		out = append(out, bound{uint64(r.Cur), "RLIMIT_AS"})
	}
	return out
}
