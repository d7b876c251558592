package main

import "golang.org/x/sys/windows"

// freeSpace returns how many bytes files in dir may still take, -1 if the
// system does not tell, and whether they take memory.
func freeSpace(dir string) (free int64, inMemory bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return -1, false
	}
	var available uint64
	if err := windows.GetDiskFreeSpaceEx(name, &available, nil, nil); err != nil {
		return -1, false
	}
	return int64(available), false
}
