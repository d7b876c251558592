package luks

import "golang.org/x/sys/unix"

// systemBounds is half of the machine's memory: without cgo macOS does not
// tell how much is free, and it compresses and swaps the rest.
func systemBounds() []bound {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return nil
	}
	return []bound{{total / 2, "half of the machine's memory"}}
}
